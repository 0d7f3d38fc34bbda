"""The charts of a budget: ages of data, payments, and P2 with its floor."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aoi_fl.report.chart import Chart, Overlay, plain
from aoi_fl.report.participation import clients_by_rounds
from aoi_fl.report.runs import Run
from aoi_fl.report.seeds import Curve, Setting, average
from aoi_fl.science.ageing import ageing_cost
from aoi_fl.science.names import Ageing
from aoi_fl.science.objective import lagrangian_floor


def ages(i: int, setting: Setting, several: bool) -> Chart | None:
    """Return a heat map of the age of each client's data after each round."""
    run = setting.first
    if not run.budgeted or run.empty:
        return None
    grid = run.ages()
    shown, clients, drawn, note, form = clients_by_rounds(
        run, grid, "Rounds since a client's data were last refreshed, after the round.", several
    )
    note += setting.note
    heat = {
        "type": "heatmap",
        "x": drawn.tolist(),
        "y": clients.tolist(),
        "z": plain(shown),
        "meta": {"clients": clients.tolist()},
        "zmin": 0,
        "colorscale": [[0, "--age0"], [0.5, "--age1"], [1, "--age2"]],
        "colorbar": {"title": {"text": "age"}, "thickness": 12, "outlinewidth": 0, "tickfont": {"color": "--muted"}},
        "hovertemplate": "client %{y}, round %{x}: age %{z}<extra></extra>",
    }
    mean, largest = _over_clients(grid)
    title = f"Age of data: {setting.name}" if several else "Age of data"
    listed = [list(row) for row in zip(run.numbers.tolist(), plain(mean), plain(largest), strict=True)]
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
            _payments,
            hover,
            measured="spent",
            column="spent, {}",
            theory=lambda setting: _level(setting.first),
            expected="budget",
            tozero=True,
        ),
        Overlay(
            "objective",
            "Weighted age of the data",
            "round",
            "weighted age",
            "How old the data are so far, weighted by how much their age matters.",
            lambda setting: [curve for curve, _ in _objectives(setting)],
            f"to {hover}",
            measured="P2",
            column="P2, {}",
            theory=lambda setting: average([floor for _, floor in _objectives(setting)])[:2],
            expected="floor",
            detail=detail,
            tozero=True,
        ),
    ]


def _payments(setting: Setting) -> list[Curve]:
    paying = [run for run in setting.runs if run.budgeted and np.isfinite(run.column("spent")).any()]
    return [(run.numbers, run.column("spent")) for run in paying]


def _level(run: Run) -> Curve:
    return run.numbers, [float(run.policy["budget"])] * len(run.rounds)


def _objectives(setting: Setting) -> list[tuple[Curve, Curve]]:
    """Return each seed's P2 and its floor to each round; none for a seed whose payments or φ are unknown."""
    found: list[tuple[Curve, Curve]] = []
    for run in setting.runs:
        if (known := payments_and_sensitivities(run)) is not None:
            floor = [lagrangian_floor(*known, float(run.policy["budget"]), t + 1) for t in range(len(run.rounds))]
            found.append(((run.numbers, running_objective(run, known[1])), (run.numbers, floor)))
    return found


def payments_and_sensitivities(run: Run) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return (n,) payments p and (n,) sensitivities φ, or None if a client lacks one.

    The sensitivities are the declared ones or, if the server estimates them, its last estimates. The result is also
    None if a client joined after round 1: P2 and its floor need the same clients in all rounds.
    """
    if not run.budgeted or run.empty:
        return None
    learned = run.estimated
    declared = {
        row["client"]: (row["payment"], learned.get(row["client"]) if learned else row["sensitivity"])
        for row in run.clients
        if (row["since"] or 1) <= 1
    }
    pairs = [declared.get(client, (None, None)) for client in range(run.size)]
    if any(value is None for pair in pairs for value in pair):
        return None
    payments, sensitivities = np.array(pairs, dtype=np.float64).T
    return payments, sensitivities


def running_objective(run: Run, sensitivities: NDArray[np.float64], ageing: Ageing = "linear") -> NDArray[np.float64]:
    """Return (R,) P2 over rounds 1 … t for each t, from the ages after refreshes.

    With another cost of ageing it is that cost's objective (:mod:`aoi_fl.science.objective`).
    """
    cost = sensitivities @ ageing_cost(ageing)(np.nan_to_num(run.ages())) / run.size
    return np.asarray(np.cumsum(cost) / np.arange(1, len(cost) + 1))


def objective_and_floor(run: Run) -> tuple[float, float] | None:
    """Return P2 over all rounds, and its floor in as many; None where a client's payment or φ is unknown."""
    known = payments_and_sensitivities(run)
    if known is None:
        return None
    value = float(running_objective(run, known[1])[-1])
    return value, lagrangian_floor(*known, float(run.policy["budget"]), len(run.rounds))


def _over_clients(grid: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (R,) mean and (R,) maximum over the clients so far; NaN in rounds without clients."""
    number = np.isfinite(grid).sum(axis=0)
    mean = np.divide(np.nansum(grid, axis=0), number, out=np.full(len(number), np.nan), where=number > 0)
    return mean, np.nan_to_num(grid, nan=-np.inf).max(axis=0, initial=-np.inf)
