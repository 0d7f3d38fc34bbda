"""``aoi run``: play a federation on this machine."""

import logging
import re
import shlex
import sys
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from aoi_fl.cli import log
from aoi_fl.cli.interrupt import resumable
from aoi_fl.cli.keys import Config, merge
from aoi_fl.cli.output import print_json, print_table
from aoi_fl.cli.wait import waiting
from aoi_fl.science.errors import ConfigError


class Engine(StrEnum):
    """Where the clients of a simulated federation live."""

    local = "local"
    ray = "ray"


_UNITS = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_MOST_ROUNDS = 1_000_000  # where simulated time ends the run
_MOST_SECONDS = 1e9

Workers = typer.Option(min=1, max=1024, help="Processes in which clients train; with --engine local.")


def run(
    config: Config = None,
    policy: Annotated[str | None, typer.Option(help="Who takes part: -c policy.")] = None,
    clients: Annotated[str | None, typer.Option(metavar="N", help="-c num-clients.")] = None,
    per_round: Annotated[str | None, typer.Option(metavar="K", help="-c clients-per-round.")] = None,
    rounds: Annotated[str | None, typer.Option(metavar="R", help="-c num-server-rounds.")] = None,
    dataset: Annotated[str | None, typer.Option(help="What is learnt: -c dataset.")] = None,
    model: Annotated[str | None, typer.Option(help="-c model.")] = None,
    seed: Annotated[str | None, typer.Option(metavar="S", help="-c seed.")] = None,
    run_name: Annotated[str | None, typer.Option(metavar="NAME", help="-c run-name.")] = None,
    clock: Annotated[
        str | None, typer.Option(metavar="TRACE", help="Simulate time: always, bernoulli:P, generated or a file.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Of simulated time: 6h, 90min, 3d or seconds. -c until.")
    ] = None,
    engine: Annotated[
        Engine, typer.Option(help="local: in this process; ray: Flower's own simulation, in processes of its own.")
    ] = Engine.local,
    workers: Annotated[int, Workers] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
    quiet: log.Quiet = False,
    verbose: log.Verbose = False,
) -> None:
    """Play a federation whose clients are simulated.

    Strategy and ClientApp are those of a deployment.

    The same run in a deployment: flwr run . NAME --run-config 'KEY=VALUE …', or AOI_KEY=VALUE docker compose up.
    """
    from aoi_fl.config.policies import BUDGETED, KEYS
    from aoi_fl.learning.data import named_clients
    from aoi_fl.server.config import RunConfig
    from aoi_fl.server.rules import of_others
    from aoi_fl.strategies.registry import REGISTRY

    short = {
        "policy": policy,
        "num-clients": clients,
        "clients-per-round": per_round,
        "num-server-rounds": rounds,
        "dataset": dataset,
        "model": model,
        "seed": seed,
        "run-name": run_name,
        "clock": clock,
        "until": None if until is None else str(seconds(until)),
    }
    asked = merge(config or [], short)
    if until is not None:
        asked.setdefault("num-server-rounds", str(_MOST_ROUNDS))
    chosen = RunConfig.parse(asked | named_clients(asked))
    usual = RunConfig.model_fields["clients_per_round"].default
    if chosen.policy in BUDGETED and chosen.clients_per_round != usual:  # a cluster sets it, whatever the policy
        raise ConfigError(
            "clients-per-round",
            chosen.clients_per_round,
            f"left out: policy {chosen.policy} selects as many clients as its budget pays",
            "Leave it out, or change budget.",
        )
    if not chosen.resume:  # what is typed has a meaning, also where it is the default
        for key in sorted(asked.keys() & KEYS - REGISTRY[chosen.policy].keys):
            raise of_others(chosen, key)
    log.configure(quiet, verbose)
    from aoi_fl.server.folder import run_folder
    from aoi_fl.server.sources import settled

    values = settled(chosen.flat())  # Flower's processes may have working folders of their own
    if (chosen.clients_file or chosen.policy in BUDGETED) and not chosen.resume:  # an engine refuses late
        from aoi_fl.server.terms import check_tables

        check_tables(RunConfig.parse(values))
    with run_folder(Path(str(values["runs-dir"])), chosen.run_name, chosen.policy, chosen.dataset) as folder:
        values["run-name"] = folder.name
        with resumable(folder):
            play(engine, values, workers)
    conclude(folder, as_json)


def seconds(text: str) -> float:
    """Return the seconds of a time such as 6h, 90min, 3d, 45s or 45.

    >>> seconds("1.5h"), seconds("45")
    (5400.0, 45.0)
    """
    found = re.fullmatch(r"([0-9.]+) ?([a-z]*)", text.strip().lower())
    try:
        if found is None or not 0 < (told := float(found[1]) * _UNITS[found[2]]) <= _MOST_SECONDS:
            raise ValueError
        return told
    except (ValueError, KeyError):
        raise ConfigError(
            "until",
            f"{text:.40}",
            f"above 0 and at most {_MOST_SECONDS:g} s, in seconds or with a unit of {', '.join(filter(None, _UNITS))}",
            "Write for instance 6h.",
        ) from None


def play(engine: Engine, values: dict[str, Any], workers: int) -> None:
    """Play the run of a complete, flat configuration."""
    if engine is Engine.local:
        _play_locally(values, workers)
        return
    if workers != 1:
        raise ConfigError(
            "--workers", workers, "left out: Ray has one worker a core", "Leave it out, or use --engine local."
        )
    if values.get("clock"):
        raise ConfigError(
            "clock",
            values["clock"],
            "empty, because only --engine local simulates time",
            "Use --engine local, or leave clock out.",
        )
    _play_on_ray(values)


def _play_locally(values: dict[str, Any], workers: int) -> None:
    with waiting("Starting") if logging.getLogger("flwr").isEnabledFor(logging.INFO) else nullcontext():
        from aoi_fl.engine.local_run import run_local
        from aoi_fl.server.app import app as server_app  # and torch, which takes seconds

    run_local(server_app, "aoi_fl.client.app:app", values, nodes=values["num-clients"], workers=workers)


def _play_on_ray(values: dict[str, Any]) -> None:
    import aoi_fl
    from aoi_fl.engine.machine import check
    from aoi_fl.engine.ray_run import run_simulation

    home = Path(aoi_fl.__file__).resolve().parents[1]
    if not (home / "pyproject.toml").is_file():
        raise ConfigError(
            "--engine",
            "ray",
            "local, because this installation has no app folder to submit to Flower",
            "Install a clone of the project in editable mode (pip install -e '.[all]'), or use --engine local.",
        )
    if not values.get("resume"):
        check(1, int(values["threads"]))
    result = run_simulation(home, values, nodes=values["num-clients"], on_line=log.Relay())
    if not result.completed:
        print(f"aoi: the run ended as {result.status}. {result.details}", file=sys.stderr)
        sys.exit(1)


def conclude(folder: Path, as_json: bool) -> None:
    """Print what came of a run; end with status 1 if it did not come to its end."""
    from aoi_fl.report.corruption import shown
    from aoi_fl.report.measure import judge
    from aoi_fl.report.runs import load
    from aoi_fl.report.summary import key_numbers

    outcome = load(folder, folder.name)
    if as_json:
        last = outcome.rounds[-1] if outcome.rounds else {"round": 0}
        figures = {key: last.get(key) for key in (f"test_{judge(outcome.rounds).field}", "test_loss")}
        print_json({"run": str(folder), "status": outcome.status, "rounds": last["round"], **figures})
    else:
        with shown(folder.name):
            columns, rows = key_numbers([outcome])
        print_table(folder.name, columns, rows)
        place = shlex.quote(str(folder))
        print(f"\nresults: {place}\npage:    aoi report {place}")
    if outcome.status != "completed":
        why = outcome.about.get("reason", "see the messages above")
        print(f"aoi: the run is {outcome.status}, not completed: {why}.", file=sys.stderr)
        sys.exit(1)
