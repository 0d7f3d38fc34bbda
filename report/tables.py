"""Runs as tables of plain values, for CSV files and ``aoi report --json``."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aoi_fl.report.measure import NOTHING, more
from aoi_fl.report.output import inert
from aoi_fl.report.provenance import public
from aoi_fl.report.quantities import quantities
from aoi_fl.report.runs import Run
from aoi_fl.server import ledger

Row = dict[str, Any]
KINDS = ("summary", "rounds", "participations", "clients")


def numbers(run: Run) -> Row:
    """Return a run's numbers as plain values; missing ones are None.

    Accuracies are shares from 0 to 1. ``variance_of_x`` and ``mean_of_x`` describe the rounds between two
    participations, ``…_in_theory`` the policy's distribution.
    """
    config = run.config
    row: Row = {"run": run.label, "status": run.status, "policy": config.get("policy") or run.policy.get("kind")}
    row["dataset"] = config.get("dataset") and public("dataset", config["dataset"])
    row |= {name.replace("-", "_"): config.get(name) for name in ("seed", "clients-per-round")}
    row |= {"clients": run.size, "rounds": len(run.rounds), "rounds_planned": ledger.planned(config)}
    further = more(run.rounds[-1] if run.rounds else ())
    row |= {each.column: each.value(run) for each in quantities(further) if each.column}
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, float):
        return value
    return None if not np.isfinite(value) else 0.0 if abs(value) < NOTHING else value


def table(runs: Sequence[Run], kind: str) -> list[Row]:
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
    columns = list(dict.fromkeys(name for row in rows for name in row))
    kept = [name for name in columns if any(row.get(name) is not None for row in rows)]
    return [{name: row.get(name) for name in kept} for row in rows]


def to_csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return a table as CSV in UTF-8; missing values are empty cells, and no text is a formula."""
    text = io.StringIO()
    columns = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: inert(cell) if isinstance(cell, str) else cell for name, cell in row.items()})
    return text.getvalue().encode()
