"""``aoi arena``: ``aoi compare --clock`` with its own defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aoi_fl.cli import compare
from aoi_fl.cli.keys import typed
from aoi_fl.cli.log import Quiet
from aoi_fl.cli.options import Json
from aoi_fl.science.errors import ConfigError, install

KEYS = ("clock", "partition", "data-dir")


def arena(
    context: typer.Context,
    policies: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="Policies, optionally with their own keys (A:KEY=VALUE:…); default: nineteen.",
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, max=1000, help="Seeds per policy; 10, with --quick 2.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Digits, twenty minutes of simulated time, in under three minutes.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder of page and table; default: the folder of the runs.")] = None,
    work: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs/arena"),
    workers: Annotated[int, typer.Option(min=1, max=1024, help="Processes that run in parallel.")] = 1,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare policies on devices with changing availability.

    It runs aoi compare POLICIES --clock CLOCK, with 300 devices that train on MNIST for an hour. The same command
    resumes an interrupted comparison.
    """
    from aoi_fl.protocol.files import try_writing
    from aoi_fl.server.folder import writing

    try:
        from aoi_fl.lab.experiments import comparing
    except ImportError as error:
        raise ConfigError(str(error.name), None, "installed", f"For aoi arena, {install('all')}.") from error

    keys = {"clock": "generated"} | typed(context)
    entrants, keys = comparing.arena(keys | {"runs-dir": str(work)}, quick=quick)
    if out is not None:
        with writing(out, "--out"):
            try_writing(out)
    configs = comparing.plan(policies or entrants, seeds or (2 if quick else 10), keys)
    compare.show(compare.complete(configs, workers, quiet=quiet), None, as_json, out)
