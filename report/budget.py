"""The charts of a budget: ages of data, payments, and P2 with its floor."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from aoi_fl.report.chart import Chart, Overlay, plain, style
from aoi_fl.report.participation import clients_by_rounds
from aoi_fl.report.runs import RecordedRun
from aoi_fl.report.seeds import Curve, Setting, average


def ages(i: int, setting: Setting, several: bool) -> Chart | None:
    """Return a heat map of the age of each client's data after each round."""
    run = setting.first
    if not run.budgeted or run.empty:
        return None
    grid = run.ages()
    shown, axes, note, form = clients_by_rounds(
        run, grid, "Rounds since a client's data were last refreshed, after the round.", several
    )
    note += setting.note
    heat = axes | {"z": plain(shown), "meta": {"clients": axes["y"]}} | style("ages")
    known = np.ma.masked_invalid(grid)
    mean, largest = (plain(of(axis=0).filled(np.nan)) for of in (known.mean, known.max))
    title = f"Age of data: {setting.name}" if several else "Age of data"
    listed = [list(row) for row in zip(run.numbers.tolist(), mean, largest, strict=True)]
    columns = ["round", "mean age", "largest age"]
    return Chart(f"ages-{i}", title, note, [heat], form, columns, listed, overlay=False)


def overlays(settings: Sequence[Setting]) -> list[Overlay]:
    """Return the payments of each round with the budget, and P2 so far with the lowest bound in as many rounds."""
    detail = (
        "This is P2, the mean of φ times the age of data over the clients and the rounds so far (Xu et al. 2024, "
        "eq. 11). The dotted floor is the Lagrangian bound for that many rounds under the budget."
    )
    if any(run.estimated for setting in settings for run in setting.runs):
        detail += " Where the server estimates φ, the values are its estimates at the end."
    hover = "round %{x}: %{y:.4g}"
    return [
        Overlay(
            "spending",
            "Payments by round",
            "round",
            "payments",
            "Payments for refreshed data in each round.",
            partial(_curves, _payments),
            hover,
            measured="spent",
            column="spent, {}",
            theory=_level,
            expected="budget",
            tozero=True,
        ),
        Overlay(
            "objective",
            "Weighted age of the data",
            "round",
            "weighted age",
            "How old the data are so far, weighted by how much their age matters.",
            partial(_curves, RecordedRun.objective),
            f"to {hover}",
            measured="P2",
            column="P2, {}",
            theory=lambda setting: average(_curves(RecordedRun.floor, setting))[:2],
            expected="floor",
            detail=detail,
            tozero=True,
        ),
    ]


def _payments(run: RecordedRun) -> NDArray[np.float64] | None:
    paid = run.column("spent")
    return paid if run.budgeted and np.isfinite(paid).any() else None


def _level(setting: Setting) -> Curve:
    run = setting.first
    return run.numbers, [float(run.policy["budget"])] * len(run.rounds)


def _curves(of: Callable[[RecordedRun], NDArray[np.float64] | None], setting: Setting) -> list[Curve]:
    """Return a number of each seed against its rounds; none for a seed without it."""
    return [(run.numbers, found) for run in setting.runs if (found := of(run)) is not None]
