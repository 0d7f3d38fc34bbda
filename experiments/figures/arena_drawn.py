"""The arena's picture: accuracy against simulated time, and each policy beside random selection in pairs."""

import math
from collections.abc import Sequence
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from aoi_fl.experiments.figures.arena_found import BASE, minutes_later, points_above, policies_of, runs_of
from aoi_fl.experiments.figures.entrants import called
from aoi_fl.experiments.harness.base import Row
from aoi_fl.experiments.harness.drawing import COLOURS, STYLES
from aoi_fl.experiments.harness.stats import Interval, interval

_WIDTH, _TOP, _LINE, _AXIS = 9.0, 3.2, 0.3, 0.8  # inches: the picture, the curves, a policy below them, its axis
_NAME = 32  # letters to a line
_BELOW = 0.05  # the lower level, in accuracy: what lies further down is no part of the picture
_DWARFS = 5  # times the median interval
_LINES, _MARKERS = ("-", "--", ":", "-."), "h8<>PXp*^v"


def draw(rows: Sequence[Row], levels: tuple[float, float], figure: Figure) -> None:
    """Draw accuracy against time, and by policy how much later than random, how much better, and at what work.

    A policy's marker and colour at its name below are those of its curve above.
    """
    policies = policies_of(rows)
    low = _AXIS + _LINE * len(policies)
    figure.set_size_inches(_WIDTH, _TOP + low)
    upper, lower = figure.subfigures(2, height_ratios=(_TOP, low))
    _curves(upper.subplots(), rows, levels)
    later, above, work = lower.subplots(1, 3)
    usual = runs_of(rows, BASE)
    for place, policy in enumerate(policies):
        runs = runs_of(rows, policy)
        for axes, values in ((later, minutes_later(runs, usual)), (above, points_above(runs, usual))):
            if values and policy != BASE:
                _point(axes, interval(values), place, policies)
        hours = [np.mean([run[part] for run in runs]) / 3600 for part in ("worked", "wasted")]
        colour = _style(policy, policies)["color"]
        work.barh(place, hours[0], height=0.6, color=colour, alpha=0.35)
        work.barh(place, hours[1], height=0.6, color=colour)
    for axes in (later, above):
        axes.axvline(0.0, color="#404040", linewidth=1.2)
        _keep_in_sight(axes)
    later.set_xlabel(f"minutes later than\nrandom at {100 * levels[0]:g} %")
    above.set_xlabel("points above random\nat the end")
    work.set_xlabel("device-hours,\nwasted ones dark")
    names = [fill(called(policy), _NAME) for policy in policies]
    for axes in (later, above, work):
        axes.set_ylim(len(policies) - 0.4, -0.6)
        axes.set_yticks(range(len(policies)), names if axes is later else [], fontsize="small", linespacing=0.9)


def _curves(axes: Axes, rows: Sequence[Row], levels: tuple[float, float]) -> None:
    """Draw each policy's mean accuracy, from the first minute at which it is known."""
    policies = policies_of(rows)
    for policy in policies:
        found: dict[float, list[float]] = {}
        for row in rows:
            if row["policy"] == policy and row["accuracy"] is not None:
                found.setdefault(row["time"] / 60, []).append(row["accuracy"])
        means = [(minute, np.mean(found[minute])) for minute in sorted(found)]
        axes.plot(*zip(*means, strict=True), markevery=(policies.index(policy) % 4, 4), **_style(policy, policies))
    for level in levels:
        axes.axhline(level, color="#999999", linewidth=1)
    axes.set(xlabel="minutes of simulated time", ylabel="test accuracy", ylim=(levels[0] - _BELOW, None))


def _point(axes: Axes, of: Interval, place: int, policies: Sequence[str]) -> None:
    """Draw a mean with its interval, of one seed without."""
    half = of.half if math.isfinite(of.half) else 0.0
    style = {**_style(policies[place], policies), "linestyle": "-"}
    axes.errorbar(of.mean, place, xerr=half, capsize=3, elinewidth=1.4, **style)


def _style(policy: str, policies: Sequence[str]) -> dict[str, object]:
    """Return a policy's colour, marker and line; those without a style of their own by their place."""
    i = policies.index(policy)
    own = STYLES.get(policy) or {
        "color": COLOURS[i % len(COLOURS)], "marker": _MARKERS[i % len(_MARKERS)], "markerfacecolor": "white"
    }  # fmt: skip
    return {"linestyle": _LINES[i // 3 % len(_LINES)], **own}


def _keep_in_sight(axes: Axes) -> None:
    """Let a policy whose interval dwarfs the others' not squeeze them: its mean is in the picture, and not its ends."""
    bars = [sorted(bar.get_segments()[0][:, 0]) for found in axes.containers for bar in found[2]]
    if not bars:
        return
    usual = float(np.median([high - low for low, high in bars]))
    kept = [0.0]
    for low, high in bars:
        kept += [low, high] if high - low <= _DWARFS * usual else [(low + high) / 2]
    low, high = min(kept), max(kept)
    room = 0.06 * (high - low) or 1.0
    axes.set_xlim(low - room, high + room)
