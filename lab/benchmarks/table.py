"""Generate the marked parts of ``docs/benchmarks.md`` from the stored results."""

import json
from pathlib import Path

from aoi_fl.lab.benchmarks.base import RESULTS

PAGE = RESULTS.parent / "benchmarks.md"


def write_page(names, by_name=()):
    """Replace the generated parts of the page by the results of these benchmarks.

    Parameters
    ----------
    names : benchmarks that run by default; the page shows their total time
    by_name : benchmarks that run only when named
    """
    from aoi_fl.lab.experiments.harness.pages import templates  # matplotlib, which a measurement need not load

    paths = {name: RESULTS / f"{name}.json" for name in (*names, *by_name)}
    results = [json.loads(path.read_text("utf-8")) for path in paths.values() if path.is_file()]
    found = templates(Path(__file__).parent, number=_number, line=_line)
    page = PAGE.read_text("utf-8")
    for mark in ("table", "machine", "ladder"):
        page = _between(page, mark, found.get_template(f"{mark}.md.j2").render(results=results, names=names))
    PAGE.write_text(page, "utf-8")


def _between(page, mark, text):
    before, begin, rest = page.partition(f"<!-- {mark} -->\n")
    _, end, after = rest.partition(f"<!-- end of {mark} -->")
    if not begin or not end:
        raise ValueError(f"{PAGE} lacks the marks of its {mark}")
    return f"{before}{begin}{text.rstrip()}\n{end}{after}"


def _number(value, unit):
    if unit == "×" and 0 < value < 0.15:
        return f"1/{1 / value:.0f}"
    number = f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return f"{number}{'' if unit == '×' else f' {unit}'}"


def _line(text):
    return " ".join(text.split()).replace("|", "/")
