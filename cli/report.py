"""``aoi report`` and ``serve``: a page of recorded runs, or a live page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aoi_fl.report.output import print_json

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the path alone.")]


def report(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", hidden=True)],
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
    loaded = load_all([str(folder) for folder in folders])
    path = page.save(output or page.place(folders), lambda: page.render(loaded))
    if as_json:
        print_json({"page": str(path), "runs": [numbers(run) for run in loaded]})
    else:
        print(path)


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
