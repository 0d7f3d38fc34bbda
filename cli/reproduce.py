"""``aoi reproduce``: measure the papers' figures and tables again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from aoi_fl.cli.keys import parse, typed
from aoi_fl.cli.log import Quiet, say
from aoi_fl.cli.options import Workers
from aoi_fl.report.output import print_table
from aoi_fl.science.errors import ConfigError, install, shortened

QUICK_OUT = Path("runs/reproduce/quick")


def reproduce(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="EXPERIMENT", hidden=True)],
    seeds: Annotated[int | None, typer.Option(min=1, max=1000, help="Paired seeds (instances, for wics-ages).")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few seeds and rounds, for a test.")] = False,
    out: Annotated[
        Path | None, typer.Option(help=f"Folder of the results: docs/results; with --quick {QUICK_OUT}.")
    ] = None,
    work: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs/reproduce"),
    workers: Workers = 1,
    quiet: Quiet = False,
) -> None:
    """Reproduce a figure or table of the papers.

    The same command resumes an interrupted one. Model and rounds apply to the learning experiments.

    EXPERIMENT is a name from `aoi reproduce list`, wics for all of Xu et al., all, list for the names, or summary for
    the table of claims.
    """
    try:
        from aoi_fl.lab.experiments.harness.base import Options
        from aoi_fl.lab.experiments.registry import experiments, find, known
        from aoi_fl.lab.experiments.runner import MissingDataError, rewrite
        from aoi_fl.lab.experiments.runner import reproduce as play
        from aoi_fl.lab.experiments.summary import write_summary
    except ImportError as error:
        raise ConfigError(
            error.name or "torch", None, "installed for aoi reproduce", f"Install it: {install('all')}."
        ) from error

    if name == "list":
        rows = [(e.name, f"{e.minutes:g}", f"{e.title} ({e.source})") for e in known().values()]
        print_table("Experiments", ["name", "minutes of one core", "what"], rows)
        return
    folder = out or (QUICK_OUT if quick else Path("docs/results"))
    if name == "summary":
        rewrite(folder)
        print(write_summary(folder))
        return
    groups = {"all": tuple(experiments()), "wics": tuple(name for name in known() if name.startswith("wics"))}
    chosen = [find(member) for member in groups.get(name, (name,))]
    config, given = parse(context), typed(context)
    rounds = config.num_server_rounds if "num-server-rounds" in given else None
    options = Options(seeds, rounds, given.get("model"), quick, Path(config.data_dir), work, quiet=quiet)
    for experiment in chosen:
        if name in groups and quick and not experiment.quick:
            say(f"{experiment.name} is left out: its model takes too long for --quick")
            continue
        try:
            print(play(experiment, options, folder, workers))
        except MissingDataError as error:
            if name not in groups:
                raise
            say(f"{experiment.name} is left out: {shortened(str(error))}")
        except KeyboardInterrupt:
            print("\naoi: interrupted; the same command resumes", file=sys.stderr)
            sys.exit(130)
    print(write_summary(folder))
