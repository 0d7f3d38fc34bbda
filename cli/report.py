"""``aoi report``: write a page of one or more recorded runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aoi_fl.cli.wait import waiting
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
    with waiting("Drawing"):
        loaded = load_all([str(folder) for folder in folders])
        path = page.save(output or page.place(folders), lambda: page.render(loaded))
    if as_json:
        print_json({"page": str(path), "runs": [numbers(run) for run in loaded]})
    else:
        print(path)
