"""``aoi arena``: selection policies against one another in simulated time."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from aoi_fl.cli.keys import typed
from aoi_fl.cli.log import Quiet
from aoi_fl.science.errors import ConfigError, install

KEYS = ("clock", "partition", "data-dir")


def arena(
    context: typer.Context,
    policies: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="Which policies, keys of their own after them (A:KEY=VALUE:…); else ten."),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, max=1000, help="Seeds of each; 10, with --quick 2.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Digits, twenty minutes of simulated time, in under three minutes.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder of table and page: runs/arena, or runs/arena/quick.")] = None,
    work: Annotated[Path, typer.Option(help="Where the runs are kept.")] = Path("runs/arena/work"),
    workers: Annotated[int, typer.Option(min=1, max=1024, help="Processes to play in, one thread each.")] = 1,
    quiet: Quiet = False,
) -> None:
    """Play policies × seeds on devices that come and go.

    Run keys hold for every policy. Writes the table; the same command goes on with what was interrupted.
    """
    try:
        from aoi_fl.config.run import RunConfig
        from aoi_fl.engine.traces import check_foresight, make_trace, too_few
        from aoi_fl.experiments.harness.base import Options
        from aoi_fl.experiments.runner import reproduce
        from aoi_fl.experiments.studies.arena import Arena
    except ImportError as error:
        raise ConfigError(
            error.name or "torch", None, "installed for aoi arena", f"Install it: {install('all')}."
        ) from error

    chosen = tuple(policies.split(",")) if policies else None
    keys = {"clock": "generated", "partition": "iid", "data-dir": "data"} | typed(context)
    clock, partition, data_dir = keys.pop("clock"), keys.pop("partition"), Path(keys.pop("data-dir"))
    kind, _, alpha = partition.partition(":")
    if (kind, bool(alpha)) not in (("iid", False), ("dirichlet", True)) or (alpha and not _is_alpha(alpha)):
        raise ConfigError(
            "partition",
            partition,
            "iid or dirichlet:ALPHA, with ALPHA from 0.001 to 1e6",
            "Write for instance dirichlet:0.3.",
        )
    from aoi_fl.server.sources import settled

    trace = settled({"clock": clock})["clock"]
    options = Options(
        seeds, quick=quick, data_dir=data_dir, work=work, policies=chosen, clock=trace, partition=partition,
        typed=shlex.join(["aoi", "arena", *sys.argv[2:]]), quiet=quiet,
    )  # fmt: skip
    game = Arena()
    options = replace(options, keys=game.shared(keys, options))
    entered: dict[str, RunConfig] = {}
    for entrant in game.entrants(options):
        plays = RunConfig.parse(game.keys(entrant, 1, options))
        if twin := next((other for other, keys in entered.items() if keys == plays), None):
            raise ConfigError(
                "policies", entrant, f"different from {twin!r}, which runs the same policy", "Leave one of them out."
            )
        entered[entrant] = plays
    settings = game.settings(options)
    devices = make_trace(trace, settings["num-clients"], 1)  # which says what is wrong before anything is played
    for plays in entered.values():
        if plays.foresight:
            check_foresight(devices, trace, plays.policy)
    if few := too_few(devices, settings["clients-per-round"], settings["over-selection"]):
        print(f"aoi: {few}", file=sys.stderr)
    _check_work(work)
    folder = out or Path("runs/arena/quick" if quick else "runs/arena")
    try:
        print(reproduce(game, options, folder, workers))
    except KeyboardInterrupt:
        print("\naoi: interrupted; the same command goes on from here", file=sys.stderr)
        sys.exit(130)


def _check_work(work: Path) -> None:
    """Raise ConfigError where runs cannot be kept; leave nothing behind."""
    from aoi_fl.protocol.files import try_writing

    made = [folder for folder in (work, *work.parents) if not folder.exists()]
    try:
        work.mkdir(parents=True, exist_ok=True)
        try_writing(work)
    except OSError as error:
        raise ConfigError(
            "--work", work, f"a folder that you can write ({error.strerror})", "Choose another folder."
        ) from error
    finally:
        for folder in made:
            with suppress(OSError):  # not made, or others have written into it since
                folder.rmdir()


def _is_alpha(text: str) -> bool:
    from aoi_fl.config.run import RunConfig

    try:
        RunConfig.parse({"alpha": text})
    except ConfigError:
        return False
    return True
