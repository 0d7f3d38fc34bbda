"""``aoi arena``: ``aoi compare --clock`` with its own defaults."""

from __future__ import annotations

from typing import Annotated

import typer

from aoi_fl.cli import compare
from aoi_fl.cli.keys import typed
from aoi_fl.cli.log import Quiet
from aoi_fl.cli.options import Json, Workers

KEYS = ("clock", "partition", "data-dir")


def arena(
    context: typer.Context,
    policies: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…", help="Policies, optionally with their own keys (A:KEY=VALUE:…); default: nineteen."
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, max=1000, help="Seeds per policy; 10, with --quick 2.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Digits, twenty minutes of simulated time, in under three minutes.")
    ] = False,
    workers: Workers = 1,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare policies on devices with changing availability.

    It runs aoi compare POLICIES --clock CLOCK, with 300 devices that train on MNIST for an hour. The same command
    resumes an interrupted comparison.
    """
    from aoi_fl.lab.experiments import comparing

    entrants, keys = comparing.arena({"clock": "generated"} | typed(context), quick=quick)
    context.obj[0].update(keys)
    seeds = seeds or (2 if quick else 10)
    compare.compare(context, policies or entrants, seeds, workers, as_json=as_json, quiet=quiet)
