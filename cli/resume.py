"""``aoi resume``: continue an interrupted run."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from aoi_fl.cli import log
from aoi_fl.cli.interrupt import resumable
from aoi_fl.cli.run import Workers, conclude, play


def resume(
    run: Annotated[str, typer.Argument(metavar="RUN", hidden=True)],
    rounds: Annotated[int | None, typer.Option(metavar="R", help="New number of rounds, above the old one.")] = None,
    workers: Annotated[int, Workers] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
    quiet: log.Quiet = False,
    verbose: log.Verbose = False,
) -> None:
    """Continue a run after its last complete round.

    The ledger has the configuration. A complete run does not change, unless --rounds adds rounds.

    The result is the same as without the interruption. A run of 30 rounds with --rounds 60 gives the same bits as a run
    of 60 rounds. RUN is the folder of a run, or its name under runs/.
    """
    log.configure(quiet, verbose)
    from aoi_fl.report.runs import find
    from aoi_fl.server.resume import check_simulated, extend, recorded_run

    folder = find(run).resolve()
    if rounds is not None:
        extend(folder, rounds)
    about = recorded_run(folder)
    check_simulated(folder)
    if about["status"] != "completed":
        here = {"resume": True, "run-name": folder.name, "runs-dir": str(folder.parent)}
        with resumable(folder):
            play(about["config"] | here, workers)
    else:
        print("aoi: this run is complete, there is nothing to resume", file=sys.stderr)
    conclude(folder, as_json)
