"""What the runs of an arena show: who is later than random selection, and at what work."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from aoi_fl.experiments.figures.entrants import called
from aoi_fl.experiments.harness.base import Row, Table
from aoi_fl.experiments.harness.drawing import COLOURS, STYLES, legend_below
from aoi_fl.experiments.harness.stats import interval
from aoi_fl.experiments.harness.times import earlier

_BASE = "random"
_TOLD = ("random:late-rounds=5", "refl:late-rounds=5", "markov-optimal")  # beside random selection, in the headline
_LINES, _MARKERS = ("-", "--", ":", "-."), "h8<>PXp*^v"

Runs = Sequence[Mapping[str, Any]]  # a row for each seed of one policy


def table_of(rows: Sequence[Row], levels: tuple[float, float]) -> Table:
    """Return a line for each policy, beside random selection in pairs of equal seed.

    ``levels`` are the accuracies to which ``reached_lower`` and ``reached_upper`` count the seconds.
    """
    lower, upper = (f"{100 * level:g} %" for level in levels)
    usual = _runs(rows, _BASE)
    lines = []
    for policy in _policies(rows):
        runs, against = _runs(rows, policy), () if policy == _BASE else usual
        lines.append(
            [
                called(policy),
                _minutes(runs, "reached_lower"),
                _later(runs, against),
                _minutes(runs, "reached_upper", against),
                interval(_told(runs, "final")).show(4),
                interval([run["updates"] for run in runs]).show(1),
                _hours(runs),
                _wasted(runs),
                interval([100 * run["never"] for run in runs]).show(1),
                f"{interval(_told(runs, 'variance')).show(1)} ({_mean(_told(runs, 'interval'))})",
                interval([run["jain"] for run in runs]).show(3),
                interval([run["seconds_a_round"] for run in runs]).show(1),
            ]
        )
    about = "Means over seeds with 95 % intervals"
    if len({row["seed"] for row in rows}) == 1:
        about = "One seed, a first look without intervals"
        lines = [[cell.replace(" (one seed)", "") for cell in line] for line in lines]
    head = (
        "policy", f"minutes to {lower}", "later than random", f"to {upper}", "final accuracy", "updates a round",
        "device-hours", "% wasted (least to most)", "% never reached", "Var[X] (E[X])", "Jain's index",
        "seconds a round",
    )  # fmt: skip
    return Table(about, head, lines)


def headline_of(title: str, rows: Sequence[Row]) -> str:
    """Say what random selection wastes, and what the others that matter waste and how much later they are."""
    runs = {policy: found for policy in (_BASE, *_TOLD) if (found := _runs(rows, policy))}
    if _BASE not in runs or len(runs) == 1:
        return ""
    others = (
        f"{called(policy)} {_wasted(runs[policy])} % of {_hours(runs[policy])}, "
        f"{_later(runs[policy], runs[_BASE], ' minutes later')}"
        for policy in runs
        if policy != _BASE
    )
    usual_cost = f"{_wasted(runs[_BASE])} % of its {_hours(runs[_BASE])} device-hours"
    return f"{title}: random selection wastes {usual_cost}, {'; '.join(others)}."


def draw(rows: Sequence[Row], levels: tuple[float, float], figure: Figure) -> None:
    """Draw accuracy against simulated time, and the work done against how much later than random a policy is."""
    left, right = figure.subplots(1, 2)
    known: dict[tuple[str, float], list[float]] = {}
    for row in rows:
        if row["accuracy"] is not None:
            known.setdefault((row["policy"], row["time"]), []).append(row["accuracy"])
    usual = _runs(rows, _BASE)
    for i, policy in enumerate(_policies(rows)):
        points = [(mark / 60, sum(a) / len(a)) for (whose, mark), a in sorted(known.items()) if whose == policy]
        style = STYLES.get(policy) or {
            "color": COLOURS[i % len(COLOURS)], "marker": _MARKERS[i % len(_MARKERS)], "markerfacecolor": "white"
        }  # fmt: skip
        line = _LINES[i // 3 % len(_LINES)]
        left.plot(*zip(*points, strict=True), label=called(policy), linestyle=line, markevery=4, **style)
        runs = _runs(rows, policy)
        if later := _minutes_later(runs, usual):
            x, y = interval(later), interval([run["worked"] / 3600 for run in runs])
            bars = [half if math.isfinite(half) else 0.0 for half in (x.half, y.half)]
            right.errorbar(x.mean, y.mean, xerr=bars[0], yerr=bars[1], capsize=2, elinewidth=1.2, **style)
    for level in levels:
        left.axhline(level, color="#999999", linewidth=1)
    right.axvline(0.0, color="#999999", linewidth=1)
    left.set(xlabel="minutes of simulated time", ylabel="test accuracy")
    right.set(
        xlabel=f"minutes later than random at {100 * levels[0]:g} %", ylabel="device-hours of work", ylim=(0, None)
    )
    legend_below(figure, left, 2)  # names with keys of their own are long


def _policies(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["policy"] for row in rows))


def _minutes(runs: Runs, level: str, usual: Runs = ()) -> str:
    """Say after how many minutes a level was reached, or by how many if not by all; tested beside the usual."""
    reached = [seconds / 60 for seconds in _told(runs, level)]
    there = interval(reached).show(1) if len(reached) == len(runs) else f"{len(reached)} of {len(runs)}"
    return there + _chance(_pairs(runs, usual, level))


def _hours(runs: Runs) -> str:
    """Say how many device-hours were worked."""
    return interval([run["worked"] / 3600 for run in runs]).show(1)


def _wasted(runs: Runs) -> str:
    """Say what share of the device-hours was wasted, in percent: far from normal, so from the least to the most."""
    shares = [100 * run["wasted"] / run["worked"] for run in runs if run["worked"]]
    spread = f" ({min(shares):.1f} to {max(shares):.1f})" if len(shares) > 1 else ""
    return _mean(shares) + spread


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.1f}" if values else "–"


def _later(runs: Runs, usual: Runs, unit: str = "") -> str:
    """Say how many minutes later than the usual of the same seed the lower level was reached."""
    pairs = _pairs(runs, usual, "reached_lower")
    if not pairs:
        return "–"
    if not np.isfinite(pairs).all():
        return f"not all there{_chance(pairs)}"
    return interval(_minutes_later(runs, usual)).show(1, unit) + _chance(pairs)


def _minutes_later(runs: Runs, usual: Runs) -> list[float]:
    """Return by how many minutes, in the pairs that both reached the lower level."""
    pairs = _pairs(runs, usual, "reached_lower")
    return [(ours - theirs) / 60 for ours, theirs in pairs if math.isfinite(ours) and math.isfinite(theirs)]


def _pairs(runs: Runs, usual: Runs, level: str) -> list[tuple[float, float]]:
    """Return the seconds until a level, ours and the usual, of the seeds that both have; infinite where never."""
    seconds, theirs = ({r["seed"]: math.inf if r[level] is None else r[level] for r in of} for of in (runs, usual))
    return [(seconds[seed], theirs[seed]) for seed in seconds if seed in theirs]


def _chance(pairs: Sequence[tuple[float, float]]) -> str:
    """Write the p of the paired test of censored times, for which it takes two pairs."""
    return f", p = {earlier(*np.array(pairs).T).chance:.2g}" if len(pairs) > 1 else ""


def _told(runs: Runs, column: str) -> list[float]:
    """Return a column of the runs that have it."""
    return [run[column] for run in runs if run.get(column) is not None]


def _runs(rows: Sequence[Row], policy: str) -> Runs:
    """Return a row for each run of a policy."""
    found = {row["seed"]: row for row in rows if row["policy"] == policy}
    return [found[seed] for seed in sorted(found)]
