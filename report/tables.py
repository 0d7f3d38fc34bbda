"""Runs as tables of plain values, for CSV and LaTeX files and ``aoi report --json``."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal, get_args

import numpy as np

from aoi_fl.report.measure import NOTHING, more
from aoi_fl.report.output import inert
from aoi_fl.report.provenance import public
from aoi_fl.report.quantities import quantities
from aoi_fl.report.runs import RecordedRun
from aoi_fl.report.seeds import factors, named, settings
from aoi_fl.server.ledger import Row

Kind = Literal["summary", "rounds", "participations", "clients"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# The columns of a table of settings: the field of `numbers`, its heading, digits, and a factor.
_LATEX = (
    ("test_accuracy", "Accuracy in \\%", 2, 100.0),
    ("test_rmse", "RMSE", 4, 1.0),
    ("client_accuracy", "Clients' accuracy in \\%", 2, 100.0),
    ("test_loss", "Loss", 3, 1.0),
    ("variance_of_x", "$\\mathrm{Var}[X]$", 2, 1.0),
    ("jain", "Jain's index", 3, 1.0),
    ("mean_age", "Mean age", 2, 1.0),
    ("messages", "Messages", 0, 1.0),
)
_SPECIAL = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"±": r"$\pm$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
)


def numbers(run: RecordedRun) -> Row:
    """Return a run's numbers as plain values; missing ones are None.

    Accuracies are shares from 0 to 1. ``variance_of_x`` and ``mean_of_x`` describe the rounds between two
    participations, ``…_in_theory`` the policy's distribution.

    Examples
    --------
    >>> row = numbers(RecordedRun("a", {"config": {"num-clients": 3}}, [], [], []))
    >>> row["clients"], row["rounds"], row["jain"], row["test_accuracy"]
    (3, 0, None, None)
    """
    config = run.config
    row: Row = {"run": run.label, "status": run.status, "policy": run.kind or None}
    row["dataset"] = config.get("dataset") and public("dataset", config["dataset"])
    row |= {name.replace("-", "_"): config.get(name) for name in ("seed", "clients-per-round")}
    row |= {"clients": run.size, "rounds": len(run.rounds), "rounds_planned": run.planned}
    further = more(run.rounds[-1] if run.rounds else ())
    row |= {each.column: each.value(run) for each in quantities(further) if each.column}
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, float):
        return value
    return None if not np.isfinite(value) else 0.0 if abs(value) < NOTHING else value


def table(runs: Sequence[RecordedRun], kind: Kind) -> list[Row]:
    """Return a table of several runs: a row per run, round, participation or client.

    The first column is the run.

    Columns without any value are left out.
    """
    if kind == "summary":
        rows = [numbers(run) for run in runs]
    else:
        rows = [
            {"run": run.label, "policy": run.config.get("policy"), "seed": run.config.get("seed"), **row}
            for run in runs
            for row in getattr(run, kind)
        ]
    kept = {name for row in rows for name, value in row.items() if value is not None}
    return [{name: value for name, value in row.items() if name in kept} for row in rows]


def to_csv(rows: Sequence[Row]) -> bytes:
    """Return a table as CSV in UTF-8; missing values are empty cells, and no text is a formula."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(chain(*rows))), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: inert(cell) if isinstance(cell, str) else cell for name, cell in row.items()} for row in rows
    )
    return text.getvalue().encode()


def to_latex(runs: Sequence[RecordedRun]) -> bytes:
    """Return a LaTeX table for ``booktabs`` with a row per setting in the given order: mean ± deviation of seeds."""
    groups = settings(runs)
    keys = factors([setting.first.config for setting in groups])
    found = [[numbers(run) for run in one.runs] for one in groups]
    names = [one.label if len(one.runs) > 1 else named(one.first.config, keys) for one in groups]
    columns = {"Setting": [name.translate(_SPECIAL) for name in names]}
    for field, heading, digits, factor in _LATEX:
        if any(cells := [[factor * row[field] for row in rows if row[field] is not None] for rows in found]):
            columns[heading] = [_cell(values, digits) for values in cells]
    counts = sorted({len(rows) for rows in found})
    seeds = f"{'--'.join(map(str, (counts[0], counts[-1])[: len(counts)]))} seeds"
    note = f"Mean $\\pm$ standard deviation of {seeds}." if counts[-1] > 1 else ""
    return latex([*columns], [*zip(*columns.values(), strict=True)], "l" + "r" * (len(columns) - 1), note)


def latex(columns: Sequence[str], rows: Sequence[Sequence[str]], form: str, note: str) -> bytes:
    """Return a table for ``booktabs`` of cells in LaTeX, with a note below."""
    from aoi_fl.report.template import fill

    return fill("table.tex", columns=columns, rows=rows, form=form, note=note).encode()


def escaped(text: str) -> str:
    """Return a text for LaTeX, with signs of numbers in its mathematics."""
    return re.sub(r"(?<![\w.])[-+](?=\d)", r"$\g<0>$", text.translate(_SPECIAL))


def _cell(values: Sequence[float], digits: int) -> str:
    if not values:
        return "--"
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"${mean} \\pm {np.std(values, ddof=1):.{digits}f}$"
