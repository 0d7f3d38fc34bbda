"""``aoi report``: one page of one or more recorded runs."""

from __future__ import annotations

import glob
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from aoi_fl.cli.output import print_json
from aoi_fl.cli.wait import waiting

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the path alone.")]


def report(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", hidden=True)],
    output: Annotated[Path | None, typer.Option(help="The page; by default report.html in the first run's.")] = None,
    as_json: Json = False,
) -> None:
    """Write one self-contained HTML page of one or more runs.

    Accuracy, who took part, how evenly, beside the theory.

    Each RUN is the folder of a run, or its name under runs/. A glob names several: 'sw-*'.
    """
    from aoi_fl.cli.compare import recorded
    from aoi_fl.report import page
    from aoi_fl.report.runs import find

    named = [[run] if find(run).exists() or not glob.has_magic(run) else map(str, recorded(run, "RUN")) for run in runs]
    chosen = list(dict.fromkeys(chain.from_iterable(named)))
    with waiting("Drawing"):
        path = page.write(chosen, output)
    if as_json:
        print_json({"page": str(path), "runs": chosen})
    else:
        print(path)
