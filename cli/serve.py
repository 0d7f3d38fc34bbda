"""``aoi serve``: serve a live page of a run, or a list of the runs."""

from typing import Annotated

import typer


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
    from pathlib import Path

    from aoi_fl.report import site
    from aoi_fl.report.runs import find
    from aoi_fl.science.errors import did_you_mean
    from aoi_fl.server.folder import LEDGER

    listening = site.listen(host, port)
    address, bound = listening.getsockname()[:2]
    shown = f"[{address}]" if ":" in address else address
    print(f"serving {find(run) if run else 'the runs under runs/'} on http://{shown}:{bound}", flush=True)
    if run and not (find(run) / LEDGER).is_file():
        near = did_you_mean(run, site.RunList(Path("runs")).names())
        print(f"There is no run {run} yet: the page waits for it.{near}", file=sys.stderr, flush=True)
    names = [*(allow_host or ()), *([host] if host else ())]
    site.serve(run, listening, names)
