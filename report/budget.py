"""The charts of a budget: ages of data, payments, and P2 with its floor."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from aoi_fl.report.chart import Chart, overlay, plain, style
from aoi_fl.report.participation import clients_by_rounds
from aoi_fl.report.runs import RecordedRun
from aoi_fl.report.seeds import Curve, Setting, average
from aoi_fl.science.types import Floats


def ages(i: int, setting: Setting, several: bool) -> Chart | None:
    """Return a heat map of the age of each client's data after each round."""
    run = setting.first
    if not run.budgeted or run.empty:
        return None
    grid = run.ages()
    note = "Rounds since a client's data were last refreshed, after the round."
    shown, chart = clients_by_rounds(setting, several, grid, f"ages-{i}", "Age of data", note)
    (axes,) = chart.data
    heat = axes | {"z": plain(shown), "meta": {"clients": axes["y"]}} | style("ages")
    known = np.ma.masked_invalid(grid)
    mean, largest = (plain(of(axis=0).filled(np.nan)) for of in (known.mean, known.max))
    listed = [list(row) for row in zip(run.numbers.tolist(), mean, largest, strict=True)]
    return replace(chart, data=[heat], columns=["round", "mean age", "largest age"], rows=listed)


def overlays(settings: Sequence[Setting]) -> list[Chart | None]:
    """Return the payments of each round with the budget, and P2 so far with the lowest bound in as many rounds."""
    detail = (
        "This is P2, the mean of φ times the age of data over the clients and the rounds so far (Xu et al. 2024, "
        "eq. 11). The dotted floor is the Lagrangian bound for that many rounds under the budget."
    )
    if any(run.estimated for setting in settings for run in setting.runs):
        detail += " Where the server estimates φ, the values are its estimates at the end."
    hover, floor = "round %{x}: %{y:.4g}", partial(_curve, RecordedRun.floor)
    return [
        overlay(
            settings,
            "spending",
            "Payments by round",
            "round",
            "payments",
            "Payments for refreshed data in each round.",
            partial(_curve, _payments),
            hover,
            measured="spent",
            column="spent, {}",
            theory=_level,
            expected="budget",
            tozero=True,
        ),
        overlay(
            settings,
            "objective",
            "Weighted age of the data",
            "round",
            "weighted age",
            "How old the data are so far, weighted by how much their age matters.",
            partial(_curve, RecordedRun.objective),
            f"to {hover}",
            measured="P2",
            column="P2, {}",
            theory=lambda setting: average([*filter(None, map(floor, setting.runs))])[:2],
            expected="floor",
            detail=detail,
            tozero=True,
        ),
    ]


def _payments(run: RecordedRun) -> Floats | None:
    paid = run.column("spent")
    return paid if run.budgeted and np.isfinite(paid).any() else None


def _level(setting: Setting) -> Curve:
    run = setting.first
    return run.numbers, [float(run.policy["budget"])] * len(run.rounds)


def _curve(of: Callable[[RecordedRun], Floats | None], run: RecordedRun) -> Curve | None:
    """Return a number of a run against its rounds; None without it."""
    return None if (found := of(run)) is None else (run.numbers, found)
