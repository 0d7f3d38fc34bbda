"""The arena's picture: accuracy against simulated time, and each policy beside random selection in pairs."""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from aoi_fl.experiments.figures.arena_found import BASE, TELLING, minutes_later, points_above, policies_of, runs_of
from aoi_fl.experiments.figures.entrants import called
from aoi_fl.experiments.harness.base import Row
from aoi_fl.experiments.harness.drawing import COLOURS, STYLES, goes_on, legend_below
from aoi_fl.experiments.harness.stats import Interval, interval

_WIDTH, _TOP, _LINE, _AXIS = 9.0, 4.2, 0.3, 0.8  # inches: the picture, the curves, a policy below them, its axis
_NAME = 32  # letters to a line
_BELOW = 5  # points of accuracy below the lower level: what lies further down is no part of the picture
_DWARFS = 5  # times the median interval
_MARKERS = "h<>Pp*"
_PLAIN = {"color": "#8C8C8C", "marker": "o", "markerfacecolor": "white"}  # of a policy whose curve is not drawn

_Style: TypeAlias = Mapping[str, Any]


def draw(rows: Sequence[Row], levels: tuple[float, float], figure: Figure) -> None:
    """Draw accuracy against time, and by policy how much later than random, how much better, and at what work.

    Of many policies the six that tell most have curves; their markers and colours are those at their names below.
    """
    styles = _styles(policies_of(rows))
    low = _AXIS + _LINE * len(styles)
    figure.set_size_inches(_WIDTH, _TOP + low)
    upper, lower = figure.subfigures(2, height_ratios=(_TOP, low))
    curves = upper.subplots()
    _curves(curves, rows, levels, {policy: style for policy, style in styles.items() if style is not _PLAIN})
    legend_below(upper, curves, 2)
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
    work.set_xlabel("device-hours,\nthose in vain dark")
    names = [fill(called(policy), _NAME) for policy in styles]
    for axes in (later, above, work):
        axes.set_ylim(len(styles) - 0.4, -0.6)
        axes.set_yticks(range(len(styles)), names if axes is later else [], fontsize="small", linespacing=0.9)


def _curves(axes: Axes, rows: Sequence[Row], levels: tuple[float, float], styles: Mapping[str, _Style]) -> None:
    """Draw each policy's mean accuracy, from the first minute at which it is known."""
    lowest = 100 * levels[0]
    for place, (policy, style) in enumerate(styles.items()):
        found: dict[float, list[float]] = {}
        for row in rows:
            if row["policy"] == policy and row["accuracy"] is not None:
                found.setdefault(row["time"] / 60, []).append(100 * row["accuracy"])
        means = {minute: float(np.mean(found[minute])) for minute in sorted(found)}
        axes.plot([*means], [*means.values()], markevery=(place % 4, 4), label=called(policy), **style)
        lowest = min(lowest, *means.values())
    for level in levels:
        axes.axhline(100 * level, color="#999999", linewidth=1)
        axes.annotate(
            f"{100 * level:g} %",
            (1, 100 * level),
            (4, 0),
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            verticalalignment="center",
            color="#666666",
        )
    axes.set(xlabel="minutes of simulated time", ylabel="test accuracy in %")
    axes.set_ylim(bottom=max(100 * levels[0] - _BELOW, lowest - 0.5))


def _beside(axes: Axes, found: Mapping[str, Interval], styles: Mapping[str, _Style]) -> None:
    """Draw what policies differ by from random selection, each in its place, with intervals, of one seed without.

    An interval that dwarfs the others does not squeeze them: its mean is in the picture, and its ends are written.
    """
    axes.axvline(0.0, color="#404040", linewidth=1.2)
    usual, kept = float(np.median([of.bar for of in found.values()] or [0.0])), [0.0]
    places = list(styles)
    for policy, of in found.items():
        axes.errorbar(of.mean, places.index(policy), xerr=of.bar, capsize=3, elinewidth=1.4, **styles[policy])
        kept += [of.mean - of.bar, of.mean + of.bar] if of.bar <= _DWARFS * usual else [of.mean]
    room = 0.06 * (max(kept) - min(kept)) or 1.0
    low, high = axes.set_xlim(min(kept) - room, max(kept) + room)
    for policy, of in found.items():
        if goes_on(axes, "x", places.index(policy), of, styles[policy]["color"]):
            said = f"{of.low:.1f} to {of.high:.1f}"
            axes.text((low + high) / 2, places.index(policy) - 0.1, said, fontsize="x-small", ha="center", va="bottom")


def _styles(policies: Sequence[str]) -> dict[str, _Style]:
    """Return each policy's colour and marker: its own, or those that are left; plain ones where no curve is drawn."""
    drawn = sorted(policies, key=lambda policy: policy not in TELLING)[: len(TELLING)]
    taken = {STYLES[policy]["color"] for policy in drawn if policy in STYLES}
    left = zip((colour for colour in COLOURS if colour not in taken), _MARKERS, strict=False)
    own = {p: STYLES.get(p) or dict(zip(("color", "marker"), next(left), strict=True)) for p in drawn}
    return {policy: own.get(policy, _PLAIN) for policy in policies}
