"""Generate the marked parts of ``docs/benchmarks.md`` from the stored results."""

import json

from aoi_fl.lab.benchmarks.base import RESULTS

PAGE = RESULTS.parent / "benchmarks.md"


def write_page(names, by_name=()):
    """Replace the generated parts of the page by the results of these benchmarks.

    Parameters
    ----------
    names : benchmarks that run by default; the page shows their total time
    by_name : benchmarks that run only when named
    """
    paths = {name: RESULTS / f"{name}.json" for name in (*names, *by_name)}
    results = [json.loads(path.read_text("utf-8")) for path in paths.values() if path.is_file()]
    page = PAGE.read_text("utf-8")
    page = _between(page, "table", _table(results))
    page = _between(page, "machine", _machines(results, names))
    page = _between(page, "ladder", "\n\n".join(r["ladder"] for r in results if "ladder" in r))
    PAGE.write_text(page, "utf-8")


def _between(page, mark, text):
    before, begin, rest = page.partition(f"<!-- {mark} -->\n")
    _, end, after = rest.partition(f"<!-- end of {mark} -->")
    if not begin or not end:
        raise ValueError(f"{PAGE} lacks the marks of its {mark}")
    return f"{before}{begin}{text}\n{end}{after}"


def _table(results):
    lines = ["| what | reference in the same run | at most | measured | process time | verdict |"]
    lines.append("|---|---|---|---|---|---|")
    for result in results:
        for row in result["rows"]:
            limit = "–" if row["limit"] is None else _number(row["limit"], row["unit"])
            notes = [row["note"]] if row["note"] else []
            if "earlier" in row:
                notes.append(f"measured {row['earlier']['date']}")
            note = f" ({'; '.join(notes)})" if notes else ""
            process = row["details"].get("process-ratio")
            lines.append(
                f"| {row['what']} | {row['reference']} | {limit} | {_number(row['measured'], row['unit'])}{note} | "
                f"{'–' if process is None else _number(process, '×')} | {row['verdict']} |"
            )
        for how in ("skipped", "failed"):
            if why := result.get(how):
                lines.append(f"| {result['name']} | – | – | – | – | {how}: {_line(why)} |")
    return "\n".join(lines)


def _machines(results, names):
    lines = ["| benchmark | date | seconds | machine | load | commit | versions |", "|---|---|---|---|---|---|---|"]
    for result in results:
        machine, versions = result["machine"], result["versions"]
        notes = (
            f"{machine['cores']} cores {machine['processor']}, {machine['memory-GiB']} GiB, {machine['system']} "
            f"{machine['kernel']}, NumPy with {', '.join(machine['numpy-simd'])}"
        )
        cells = [
            result["name"],
            result["date"],
            f"{result['seconds']:.0f}",
            notes,
            f"{machine['load-before']} before, {machine['load']} after",
            machine["commit"] or "–",
            ", ".join(f"{k} {v}" for k, v in versions.items()),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    together = sum(result["seconds"] for result in results if result["name"] in names)
    rest = [r["name"] for r in results if r["name"] not in names]
    but = f", without {', '.join(rest)}" if rest else ""
    return "\n".join([*lines, "", f"`make bench` takes the sum of these times, {together:.0f} s{but}."])


def _number(value, unit):
    if unit == "×" and 0 < value < 0.15:
        return f"1/{1 / value:.0f}"
    number = f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return f"{number}{'' if unit == '×' else f' {unit}'}"


def _line(text):
    return " ".join(text.split()).replace("|", "/")
