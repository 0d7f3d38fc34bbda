"""One self-contained HTML page of one or more runs: no network, no other file."""

import base64
import gzip
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

import aoi_fl
from aoi_fl.protocol import files
from aoi_fl.report import summary
from aoi_fl.report.chart import Chart, text
from aoi_fl.report.corruption import legible
from aoi_fl.report.figures import figures
from aoi_fl.report.headline import headline, policies
from aoi_fl.report.judging import Pair
from aoi_fl.report.provenance import provenance
from aoi_fl.report.quantities import key_numbers
from aoi_fl.report.runs import RecordedRun, find, load_all
from aoi_fl.report.seeds import settings
from aoi_fl.report.template import fill, plotly
from aoi_fl.science.errors import ConfigError

# The page may run its own scripts and load nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
_MOST_NAMES = 1000
_NAMED, _LONGEST = 4, 120  # runs in a page's name, and its largest number of characters
_TITLE = "– AoI-FL report</title>"  # in the head of each page


def write(names: Sequence[str], output: Path | None = None) -> Path:
    """Write the page of the named runs and return its path, by default as :func:`place`.

    Raises
    ------
    ConfigError : a run or its ledger is missing or damaged, or the page cannot be written or would replace a file.
    """
    return save(output or place([find(name) for name in names]), lambda: render(load_all(names)))


def place(folders: Sequence[Path]) -> Path:
    """Return the path of the runs' page: in the run's folder, or beside several runs' folders.

    Examples
    --------
    >>> str(place([Path("runs/a")])), str(place([Path("runs/a"), Path("runs/b")]))
    ('runs/a/report.html', 'runs/compare-a-b.html')
    """
    names = [folder.name for folder in folders]
    if len(names) == 1:
        return folders[0] / "report.html"
    stem = "-".join(names)
    if len(names) > _NAMED or len(stem) > _LONGEST:
        whole = hashlib.blake2b("\n".join(names).encode(errors="replace"), digest_size=4).hexdigest()
        stem = f"{names[0][:_LONGEST]}-and-{len(names) - 1}-more-{whole}"
    return folders[0].parent / f"compare-{stem}.html"


def save(path: Path, draw: Callable[[], str]) -> Path:
    """Write the page of ``draw``, unless it would replace another kind of file; return its path.

    Raises
    ------
    ConfigError : the page cannot be written, or would replace another file.
    """
    if _another(path):
        raise ConfigError("--output", path, "a new file or a page of AoI-FL", "Choose another file with --output FILE.")
    files.save(path, draw().encode())
    return path


def _another(path: Path) -> bool:
    """Return whether a file exists that is no report."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.read(8192)
    except OSError:  # the write will report it
        return False
    return bool(head) and _TITLE not in head.decode(errors="replace")


def render(runs: Sequence[RecordedRun], pairs: Sequence[Pair] = ()) -> str:
    """Return the whole page; the verdicts on pairs come first and leave out the charts of single runs."""
    for run in runs if len(runs) > 1 else ():  # so that an error names the run
        with legible(run.label):
            figures([run])
    with legible(", ".join(run.label for run in runs)):
        charts = [chart for chart in figures(runs) if chart.overlay or not pairs]
        packed = {
            "plotly": _embedded(plotly() if charts else b""),
            "figures": _embedded(gzip.compress(to_json(drawings(charts)), mtime=0)),
        }
        return fill("page.html", policy=_POLICY, packed=packed, **_content(runs, charts, pairs))


def title(runs: Sequence[RecordedRun]) -> str:
    """Return the heading of the runs' page, plain text."""
    return f"{len(runs)} runs compared" if len(runs) > 1 else runs[0].label


def main(runs: Sequence[RecordedRun], charts: Sequence[Chart]) -> str:
    """Return the HTML of the main element: the page's text and placeholders of its charts."""
    return fill("main.html", **_content(runs, charts))


def _content(runs: Sequence[RecordedRun], charts: Sequence[Chart], pairs: Sequence[Pair] = ()) -> dict[str, Any]:
    dropped, count = summary.dropped(runs)
    differing, agreeing = summary.configuration(runs)
    overlaid = settings(runs)
    return {
        "title": title(runs),
        "runs": runs,
        "pairs": pairs,
        "sentence": summary.sentence,
        "headline": headline(overlaid),
        "policies": policies(overlaid),
        "settings": overlaid,
        "places": {run.label: i for i, setting in enumerate(overlaid) for run in setting.runs},
        "seeds": summary.sentences(overlaid),
        "charts": charts,
        "key_numbers": key_numbers(overlaid),
        "differing": differing,
        "agreeing": agreeing,
        "provenance": provenance(runs),
        "version": aoi_fl.__version__,
        "today": time.strftime("%Y-%m-%d", time.gmtime()),
        "clients": any("clients" in trace.get("meta", {}) for chart in charts for trace in chart.data),
        "names": _names(runs),
        "dropped": dropped,
        "dropped_count": count,
    }


def _names(runs: Sequence[RecordedRun]) -> list[tuple[int, str]]:
    """Return the clients' numbers and names, unless names repeat numbers or are too many."""
    known = [(row["client"], run.name(row["client"])) for run in runs if run.named for row in run.clients]
    return sorted(set(known))[:_MOST_NAMES]


def drawings(charts: Sequence[Chart]) -> list[dict[str, Any]]:
    """Return the charts for the script, with the names of their elements."""
    return [
        {"name": chart.name, "title": text(chart.title), "data": chart.data, "layout": chart.layout} for chart in charts
    ]


def to_json(values: Any) -> bytes:
    """Return values as compact JSON; NaN and infinities raise ValueError."""
    return json.dumps(values, allow_nan=False, separators=(",", ":")).encode()


def _embedded(packed: bytes) -> Markup:
    """Return compressed bytes in base64, which needs no escapes."""
    return Markup(base64.b64encode(packed).decode())
