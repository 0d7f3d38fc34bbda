"""Runs as tables of plain values, for CSV and LaTeX files and ``aoi report --json``."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Literal, get_args

import numpy as np

from aoi_fl.report.measure import NOTHING, more
from aoi_fl.report.output import inert
from aoi_fl.report.provenance import public
from aoi_fl.report.quantities import quantities
from aoi_fl.report.runs import RecordedRun
from aoi_fl.report.seeds import factors, named, settings

Row = dict[str, Any]
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


def to_csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
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
    names = [one.label if len(one.runs) > 1 else named(one.first.config, keys) for one in groups]
    found = [(name, [numbers(run) for run in one.runs]) for name, one in zip(names, groups, strict=True)]
    kept = [c for c in _LATEX if any(row[c[0]] is not None for _, rows in found for row in rows)]
    lines = [
        [name.translate(_SPECIAL), *(_cell([row[c[0]] for row in rows], c[2], c[3]) for c in kept)]
        for name, rows in found
    ]
    counts = sorted({len(rows) for _, rows in found})
    seeds = f"{'--'.join(map(str, (counts[0], counts[-1])[: len(counts)]))} seeds"
    note = f"Mean $\\pm$ standard deviation of {seeds}." if counts[-1] > 1 else ""
    return latex(["Setting", *(c[1] for c in kept)], lines, "l" + "r" * len(kept), note)


def latex(columns: Sequence[str], rows: Sequence[Sequence[str]], form: str, note: str) -> bytes:
    """Return a table for ``booktabs`` of cells in LaTeX, with a note below."""
    from aoi_fl.report.template import fill

    return fill("table.tex", columns=columns, rows=rows, form=form, note=note).encode()


def escaped(text: str) -> str:
    """Return a text for LaTeX, with signs of numbers in its mathematics."""
    return re.sub(r"(?<![\w.])[-+](?=\d)", r"$\g<0>$", text.translate(_SPECIAL))


def _cell(values: Sequence[float | None], digits: int, factor: float) -> str:
    known = [factor * value for value in values if value is not None]
    if not known:
        return "--"
    mean = f"{np.mean(known):.{digits}f}"
    return mean if len(known) < 2 else f"${mean} \\pm {np.std(known, ddof=1):.{digits}f}$"
