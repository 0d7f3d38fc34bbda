"""The arena's picture: accuracy against simulated time, and each policy beside random selection in pairs."""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any, TypeAlias

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

_Style: TypeAlias = Mapping[str, Any]


def draw(rows: Sequence[Row], levels: tuple[float, float], figure: Figure) -> None:
    """Draw accuracy against time, and by policy how much later than random, how much better, and at what work.

    A policy's marker and colour at its name below are those of its curve above.
    """
    styles = {policy: _style(policy, place) for place, policy in enumerate(policies_of(rows))}
    low = _AXIS + _LINE * len(styles)
    figure.set_size_inches(_WIDTH, _TOP + low)
    upper, lower = figure.subfigures(2, height_ratios=(_TOP, low))
    _curves(upper.subplots(), rows, levels, styles)
    later, above, work = lower.subplots(1, 3)
    runs = {policy: runs_of(rows, policy) for policy in styles}
    usual = runs.get(BASE, ())
    for axes, apart in ((later, minutes_later), (above, points_above)):
        _beside(axes, {p: interval(v) for p, r in runs.items() if p != BASE and (v := apart(r, usual))}, styles)
    for place, (policy, style) in enumerate(styles.items()):
        for part, strength in (("worked", 0.35), ("wasted", 1.0)):
            hours = np.mean([run[part] for run in runs[policy]]) / 3600
            work.barh(place, hours, height=0.6, color=style["color"], alpha=strength)
    later.set_xlabel(f"minutes later than\nrandom at {100 * levels[0]:g} %")
    above.set_xlabel("points above random\nat the end")
    work.set_xlabel("device-hours,\nwasted ones dark")
    names = [fill(called(policy), _NAME) for policy in styles]
    for axes in (later, above, work):
        axes.set_ylim(len(styles) - 0.4, -0.6)
        axes.set_yticks(range(len(styles)), names if axes is later else [], fontsize="small", linespacing=0.9)


def _curves(axes: Axes, rows: Sequence[Row], levels: tuple[float, float], styles: Mapping[str, _Style]) -> None:
    """Draw each policy's mean accuracy, from the first minute at which it is known."""
    for place, (policy, style) in enumerate(styles.items()):
        found: dict[float, list[float]] = {}
        for row in rows:
            if row["policy"] == policy and row["accuracy"] is not None:
                found.setdefault(row["time"] / 60, []).append(row["accuracy"])
        means = [(minute, np.mean(found[minute])) for minute in sorted(found)]
        axes.plot(*zip(*means, strict=True), markevery=(place % 4, 4), **style)
    for level in levels:
        axes.axhline(level, color="#999999", linewidth=1)
    axes.set(xlabel="minutes of simulated time", ylabel="test accuracy", ylim=(levels[0] - _BELOW, None))


def _beside(axes: Axes, found: Mapping[str, Interval], styles: Mapping[str, _Style]) -> None:
    """Draw what policies differ by from random selection, each in its place, with intervals, of one seed without.

    An interval that dwarfs the others does not squeeze them: its mean is in the picture, and an arrow where it goes on.
    """
    axes.axvline(0.0, color="#404040", linewidth=1.2)
    usual, kept = float(np.median([of.bar for of in found.values()] or [0.0])), [0.0]
    places = list(styles)
    for policy, of in found.items():
        style = {**styles[policy], "linestyle": "-"}
        axes.errorbar(of.mean, places.index(policy), xerr=of.bar, capsize=3, elinewidth=1.4, **style)
        kept += [of.mean - of.bar, of.mean + of.bar] if of.bar <= _DWARFS * usual else [of.mean]
    room = 0.06 * (max(kept) - min(kept)) or 1.0
    low, high = axes.set_xlim(min(kept) - room, max(kept) + room)
    for policy, of in found.items():
        for edge, arrow, goes_on in ((low, "left", of.mean - of.bar < low), (high, "right", of.mean + of.bar > high)):
            if goes_on:
                look = {"marker": rf"$\{arrow}arrow$", "markersize": 12, "color": styles[policy]["color"]}
                axes.plot(edge, places.index(policy), clip_on=False, **look)


def _style(policy: str, place: int) -> _Style:
    """Return a policy's colour, marker and line; those without a style of their own by their place."""
    own = STYLES.get(policy) or {
        "color": COLOURS[place % len(COLOURS)], "marker": _MARKERS[place % len(_MARKERS)], "markerfacecolor": "white"
    }  # fmt: skip
    return {"linestyle": _LINES[place // 3 % len(_LINES)], **own}
