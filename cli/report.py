"""``aoi report``, ``figure`` and ``serve``: a page of recorded runs, one of its charts for a paper, or a live page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from aoi_fl.cli.options import Json, Runs
from aoi_fl.report.output import print_json
from aoi_fl.science.errors import ConfigError, check_choice


def report(
    runs: Runs,
    output: Annotated[
        Path | None, typer.Option(help="The page; by default RUN/report.html, for several runs compare-A-B.html.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write one self-contained HTML page of one or more runs.

    It shows load, participation and learning next to the theory.

    Each RUN is the folder of a run, or its name under runs/. A glob names several: 'sw-*'.
    """
    from aoi_fl.report import page
    from aoi_fl.report.runs import load_all, matching
    from aoi_fl.report.tables import numbers

    folders = matching(runs)
    loaded = load_all(folders)
    path = page.save(output or page.place(folders), lambda: page.render(loaded))
    if as_json:
        print_json({"page": str(path), "runs": [numbers(run) for run in loaded]})
    else:
        print(path)


_INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}


def figure(
    runs: Annotated[list[str], typer.Argument(metavar="NAME...", hidden=True)],
    chart: Annotated[str | None, typer.Option(help="A chart of the page; by default the accuracy or RMSE.")] = None,
    width: Annotated[str, typer.Option(help="In in, cm, mm or pt; a column of a paper by default.")] = "3.4in",
    pdf: Annotated[bool, typer.Option("--pdf", help="PDF with embedded fonts, as by default.")] = False,
    output: Annotated[
        Path | None, typer.Option(help="The file, .pdf, .svg or .png; by default NAME-CHART.pdf in this folder.")
    ] = None,
) -> None:
    """Draw a chart of runs for a paper.

    NAME is a run, a glob, or a comparison of aoi compare. Seeds become a mean with a 95 % band. It needs matplotlib.
    """
    from aoi_fl.protocol.files import save
    from aoi_fl.report.drawing import FORMATS, draw
    from aoi_fl.report.figures import figures
    from aoi_fl.report.measure import judge
    from aoi_fl.report.runs import load_all, matching

    inches = _inches(width)
    kind = "pdf" if output is None else output.suffix[1:]
    if kind not in (FORMATS[:1] if pdf else FORMATS):
        raise ConfigError("--output", output, [f".{name}" for name in FORMATS], "Choose a name with such an end.")
    found = load_all(matching(runs))
    if any(run.empty for run in found):
        raise ConfigError("NAME", runs[0], "runs with a complete round", "Wait for it, or leave the run out.")
    charts = {one.name: one for one in figures(found)}
    name = chart or judge(found[0].rounds).column.replace("_", "-")
    check_choice("--chart", name, charts)
    place = output or Path(f"{Path(runs[0]).stem.replace('*', '')}-{name}.pdf")
    save(place, draw(charts[name], inches, kind))
    print(place)


def _inches(width: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+)\s*", width)
    inches = float(match[1]) * _INCHES.get(match[2], 0) if match else 0.0
    if not 0.5 <= inches <= 50:
        raise ConfigError("--width", width, f"0.5 to 50 inches in {', '.join(_INCHES)}", "Give --width 3.4in.")
    return inches


def serve(
    run: Annotated[str | None, typer.Argument(metavar="RUN", hidden=True)] = None,
    host: Annotated[
        str,
        typer.Option(help="Address to serve on. The page has no password: each machine that reaches it can read it."),
    ] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Another host name of this server; may be repeated.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to serve on; 0: any free port.")] = 8050,
) -> None:
    """Serve a live page of a run, or a list of the runs.

    The page is the report, and each new round appears at once. The command reads only the ledger. Ctrl-C ends it.

    RUN is the folder of a run, or its name under runs/; the run may start later. Without RUN, the page lists the
    runs under runs/ with their state. /wall is for a screen on a wall, /metrics for Prometheus.
    """
    import sys

    from aoi_fl.report import site
    from aoi_fl.report.runs import find
    from aoi_fl.server.folder import LEDGER

    listening = site.listen(host, port)
    address, bound = listening.getsockname()[:2]
    shown = f"[{address}]" if ":" in address else address
    print(f"serving {find(run) if run else 'the runs under runs/'} on http://{shown}:{bound}", flush=True)
    if run and not (find(run) / LEDGER).is_file():
        print(f"There is no run {run} yet: the page waits for it.", file=sys.stderr, flush=True)
    names = [*(allow_host or ()), *([host] if host else ())]
    site.serve(run, listening, names)
