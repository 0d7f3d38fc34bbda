"""``docs/benchmarks.md``: what stands between its marks is made from the stored results."""

import json
from collections.abc import Iterable
from typing import Any

from benchmarks.base import RESULTS

PAGE = RESULTS.parent / "benchmarks.md"


def write_page(names: Iterable[str]) -> None:
    """Replace the generated parts of the page by what the results of these benchmarks say."""
    results = [json.loads(path.read_text("utf-8")) for name in names if (path := RESULTS / f"{name}.json").is_file()]
    page = PAGE.read_text("utf-8")
    page = _between(page, "table", _table(results))
    page = _between(page, "machine", _machines(results))
    page = _between(page, "profile", "\n\n".join(r["profile"] for r in results if "profile" in r))
    PAGE.write_text(page, "utf-8")


def _between(page: str, mark: str, text: str) -> str:
    before, begin, rest = page.partition(f"<!-- {mark} -->\n")
    _, end, after = rest.partition(f"<!-- end of {mark} -->")
    if not begin or not end:
        raise ValueError(f"{PAGE} lacks the marks of its {mark}")
    return f"{before}{begin}{text}\n{end}{after}"


def _table(results: list[dict[str, Any]]) -> str:
    lines = ["| what | reference in the same run | at most | measured | process time | verdict |"]
    lines.append("|---|---|---|---|---|---|")
    for result in results:
        for row in result["rows"]:
            limit = "–" if row["limit"] is None else _number(row["limit"], row["unit"])
            note = f" ({row['note']})" if row["note"] else ""
            process = row["details"].get("process-ratio")
            lines.append(
                f"| {row['what']} | {row['reference']} | {limit} | {_number(row['measured'], row['unit'])}{note} | "
                f"{'–' if process is None else _number(process, '×')} | {row['verdict']} |"
            )
        if result["skipped"]:
            lines.append(f"| {result['name']} | – | – | – | – | skipped: {_line(result['skipped'])} |")
    return "\n".join(lines)


def _machines(results: list[dict[str, Any]]) -> str:
    lines = []
    for result in results:
        machine, versions = result["machine"], result["versions"]
        lines.append(
            f"- {result['name']}: {result['date']}, {machine['cores']} cores {machine['processor']}, load "
            f"{machine['load']} at its end; {', '.join(f'{k} {v}' for k, v in versions.items())}; "
            f"{result['seconds']:.0f} s"
        )
    return "\n".join(lines)


def _number(value: float, unit: str) -> str:
    if unit == "×" and 0 < value < 0.15:
        return f"1/{1 / value:.0f}"
    return f"{value:.3g}{'' if unit == '×' else f' {unit}'}"


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "/")
