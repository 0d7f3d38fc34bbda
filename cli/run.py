"""``aoi run`` and ``resume``: run a federation on this machine, and continue it."""

import logging
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from aoi_fl.cli import log
from aoi_fl.cli.interrupt import resumable
from aoi_fl.cli.keys import parse, typed
from aoi_fl.cli.options import Json, Run, Workers
from aoi_fl.report.output import print_json, print_table

KEYS = (
    "policy",
    "preset",
    "num-clients",
    "clients-per-round",
    "num-server-rounds",
    "dataset",
    "model",
    "seed",
    "run-name",
    "clock",
    "until",
)
_MOST_ROUNDS = 1_000_000  # if simulated time ends the run


def run(
    context: typer.Context,
    workers: Workers = 1,
    as_json: Json = False,
    quiet: log.Quiet = False,
    verbose: log.Verbose = False,
) -> None:
    """Run a federation with simulated clients.

    A deployment uses the same strategy and the same ClientApp.

    The same run in a deployment: flwr run . NAME --run-config 'KEY=VALUE …', or AOI_KEY=VALUE docker compose up.
    """
    given = typed(context)
    more: dict[str, Any] = {}
    if given.get("client-column"):
        from aoi_fl.server.sources import named_clients  # it loads NumPy, which other data do not need yet

        more |= named_clients(given)
    if given.get("until"):
        more["num_server_rounds"] = given.get("num-server-rounds", _MOST_ROUNDS)
    chosen = parse(context, **more)
    log.configure(quiet, verbose)
    from aoi_fl.server.folder import run_folder
    from aoi_fl.server.sources import settled

    values = settled(chosen.flat())
    with run_folder(Path(str(values["runs-dir"])), chosen.run_name, chosen.policy, chosen.dataset) as folder:
        values["run-name"] = folder.name
        with resumable(folder):
            play(values, workers)
    conclude(folder, as_json)


def play(values: dict[str, Any], workers: int) -> None:
    """Run a complete, flat configuration."""
    if logging.getLogger("flwr").isEnabledFor(logging.INFO):
        log.announce("starting")
    from aoi_fl.server.app import app as server_app  # it loads torch, which takes seconds
    from aoi_fl.server.engine.local_run import run_local

    run_local(server_app, "aoi_fl.learning.client_app:app", values, nodes=values["num-clients"], workers=workers)


def conclude(folder: Path, as_json: bool) -> None:
    """Print the results of a run; end with status 1 if it did not complete."""
    from aoi_fl.report.corruption import legible
    from aoi_fl.report.measure import judge
    from aoi_fl.report.quantities import key_numbers
    from aoi_fl.report.runs import load
    from aoi_fl.report.seeds import Setting

    outcome = load(folder, folder.name)
    if as_json:
        last = outcome.rounds[-1] if outcome.rounds else {"round": 0}
        figures = {key: last.get(key) for key in (judge(outcome.rounds).column, "test_loss")}
        print_json({"run": str(folder), "status": outcome.status, "rounds": last["round"], **figures})
    else:
        with legible(folder.name):
            columns, rows = key_numbers([Setting(folder.name, (outcome,))])
        print_table(folder.name, columns, rows)
        place = shlex.quote(str(folder))
        print(f"\nresults: {place}\npage:    aoi report {place}")
    if outcome.status != "completed":
        why = outcome.about.get("reason", "see the messages above")
        log.say(f"the run is {outcome.status}, not completed: {why}.")
        sys.exit(1)


def resume(
    run: Run,
    rounds: Annotated[int | None, typer.Option(metavar="R", help="New number of rounds, above the old one.")] = None,
    workers: Workers = 1,
    as_json: Json = False,
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
        log.say("this run is complete, there is nothing to resume")
    conclude(folder, as_json)
