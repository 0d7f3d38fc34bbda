"""What the runs of an arena show: who is later than random selection, and at what work."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from aoi_fl.experiments.figures.entrants import called
from aoi_fl.experiments.harness.base import Row, Table
from aoi_fl.experiments.harness.drawing import COLOURS, STYLES, legend_below
from aoi_fl.experiments.harness.stats import interval

_BASE = "random"
_TOLD = ("refl:late-rounds=5", "markov-optimal")  # beside random selection, in the headline
_LINES, _MARKERS = ("-", "--", ":", "-."), "h8<>PXp*^v"

Runs = Sequence[Mapping[str, Any]]  # a row for each seed of one policy


def table_of(rows: Sequence[Row], levels: tuple[float, float]) -> Table:
    """Return a line for each policy, beside random selection in pairs of equal seed.

    ``levels`` are the accuracies to which ``reached_lower`` and ``reached_upper`` count the seconds.
    """
    lower, upper = (f"{100 * level:g} %" for level in levels)
    usual = _usual(rows)
    lines = []
    for policy in _policies(rows):
        runs = _runs(rows, policy)
        lines.append(
            [
                called(policy),
                _minutes(runs, "reached_lower"),
                _later(policy, runs, usual),
                _minutes(runs, "reached_upper"),
                interval([run["final"] for run in runs]).show(4),
                _updates(runs),
                _hours(runs),
                _wasted(runs),
                interval([100 * run["never"] for run in runs]).show(1),
                interval([run["variance"] for run in runs if run["variance"] is not None]).show(1),
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
        "device-hours", "% wasted", "% never reached", "Var[X]", "Jain's index", "seconds a round",
    )  # fmt: skip
    return Table(about, head, lines)


def headline_of(title: str, rows: Sequence[Row]) -> str:
    """Say what random selection wastes, and what the others that matter waste and how much later they are."""
    runs = {policy: _runs(rows, policy) for policy in (_BASE, *_TOLD)}
    if not all(runs.values()):
        return ""
    usual = _usual(rows)
    others = (
        f"{called(policy)} {_wasted(runs[policy])} % of {_hours(runs[policy])}, "
        f"{_later(policy, runs[policy], usual)} minutes later"
        for policy in _TOLD
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
    usual = _usual(rows)
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


def _minutes(runs: Runs, level: str) -> str:
    """Say after how many minutes a level was reached, and how often it was not."""
    reached = [run[level] / 60 for run in runs if run[level] is not None]
    never = f" ({len(runs) - len(reached)} of {len(runs)} never)" if len(reached) < len(runs) else ""
    return (interval(reached).show(1) if reached else "–") + never


def _hours(runs: Runs) -> str:
    """Say how many device-hours were worked."""
    return interval([run["worked"] / 3600 for run in runs]).show(1)


def _wasted(runs: Runs) -> str:
    """Say what share of the device-hours was wasted, in percent."""
    return interval([100 * run["wasted"] / run["worked"] for run in runs if run["worked"]]).show(1)


def _updates(runs: Runs) -> str:
    """Say how many updates counted in a round; results of an earlier version lack that."""
    found = [run["updates"] for run in runs if run.get("updates") is not None]
    return interval(found).show(1) if found else "–"


def _usual(rows: Sequence[Row]) -> dict[int, float | None]:
    """Return, for each seed, the seconds until random selection reached the lower level."""
    return {run["seed"]: run["reached_lower"] for run in _runs(rows, _BASE)}


def _later(policy: str, runs: Runs, usual: Mapping[int, float | None]) -> str:
    """Say how many minutes later than random selection of the same seed the lower level was reached, if both are."""
    later = [] if policy == _BASE else _minutes_later(runs, usual)
    return interval(later).show(1) if later else "–"


def _minutes_later(runs: Runs, usual: Mapping[int, float | None]) -> list[float]:
    pairs = [(run["reached_lower"], usual.get(run["seed"])) for run in runs]
    return [(ours - theirs) / 60 for ours, theirs in pairs if ours is not None and theirs is not None]


def _runs(rows: Sequence[Row], policy: str) -> Runs:
    """Return a row for each run of a policy."""
    found = {row["seed"]: row for row in rows if row["policy"] == policy}
    return [found[seed] for seed in sorted(found)]
