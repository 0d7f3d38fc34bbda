"""The picture of learning curves, and what policies are above random selection, in pairs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from aoi_fl.experiments.figures.said import Said
from aoi_fl.experiments.figures.speed import BASE, Curves
from aoi_fl.experiments.harness.base import GLOBECOM, JOURNAL
from aoi_fl.experiments.harness.drawing import CROSS, STYLES, legend_below, paired_tenths
from aoi_fl.experiments.harness.stats import interval

_CROSSES: Mapping[str, dict[str, Any]] = {GLOBECOM: {**CROSS}, JOURNAL: {**CROSS, "marker": "+", "markersize": 12}}
_WIDTH = 46  # points, of a number of rounds written at the edge


def draw(
    figure: Figure, title: str, curves: Mapping[str, Curves], targets: Mapping[str, float], claims: Sequence[Said]
) -> None:
    """Draw each policy's mean accuracy with the target, and under it what it is above random selection, in pairs.

    A round's difference is mostly noise: below are means over a tenth of the rounds, policies side by side. The first
    rounds, where little is learnt yet, set neither scale. Crosses are what the papers print, the rounds to a target; at
    the right edge, with an arrow, are those that lie beyond it.

    Parameters
    ----------
    curves : of each partition that was played
    targets : of each partition; where the axis ends at the least
    claims : whose printed rounds are drawn in
    """
    compared = any(found.keys() != {BASE} for found in curves.values())
    figure.set_size_inches(9, 7.5 if compared else 4.6)
    ends, late, printed = [0.0], [100 * targets[split] for split in curves], set[_Printed]()
    panels = figure.subplots(1 + compared, len(curves), sharex=True, sharey="row", squeeze=False)
    above, below = panels[0], panels[-1]
    for top, bottom, (split, found) in zip(above, below, curves.items(), strict=True):
        percents = {policy: 100 * curve for policy, curve in found.items()}
        for policy, curve in percents.items():
            x = np.arange(1, curve.shape[1] + 1)
            style: dict[str, Any] = {**STYLES[policy], "markevery": max(1, len(x) // 8)}
            top.plot(x, curve.mean(axis=0), label=policy, **style)
            late += curve.mean(axis=0)[4:].tolist()
        if compared:
            bottom.axhline(0, color=STYLES[BASE]["color"])
        gains = {p: c - percents[BASE] for p, c in percents.items() if p != BASE}
        for gain in paired_tenths(bottom, x, gains):
            intervals = [interval(values) for values in gain[1:]]
            ends += [end for g in intervals for end in (g.low, g.mean, g.high) if np.isfinite(end)]
        top.axhline(100 * targets[split], color="#888888", linestyle=":", label="target")
        found_in = _printed(split, claims)
        _mark(top, found_in, len(x))
        late += [100 * point.target for point in found_in]
        printed |= found_in
        top.set_title(f"{split}, target {targets[split]:.0%}")
        bottom.set_xlabel("round")
    figure.suptitle(title, fontsize="medium")
    low, high = min(late), max(late)
    above[0].set_ylim(low - 0.03 * (high - low), high + 0.05 * (high - low))
    if margin := 0.08 * (max(ends) - min(ends)):
        below[0].set_ylim(min(ends) - margin, max(ends) + margin)
    if compared:
        below[0].set_ylabel("points above random, 95 % interval,\nmeans of a tenth of the rounds")
    above[0].set_ylabel("test accuracy in %, mean over seeds")
    played = set().union(*curves.values())
    for policy in [p for p in STYLES if p not in played and any(point.policy == p for point in printed)]:
        above[0].plot([], [], color=STYLES[policy]["color"], linestyle="-", label=f"{policy}, not played")
    for paper, cross in _CROSSES.items():
        if any(point.paper == paper and point.rounds <= len(x) for point in printed):
            above[0].plot([], [], color="black", label=f"printed in {paper}", **cross)
    if any(point.rounds > len(x) for point in printed):
        above[0].plot(
            [], [], color="black", label="printed, beyond the axis", linestyle="", marker="$→$", markersize=13
        )
    legend_below(figure, above[0], 3)


class _Printed(NamedTuple):
    target: float
    rounds: int
    policy: str
    paper: str


def _printed(split: str, claims: Sequence[Said]) -> set[_Printed]:
    """Return what the papers print of a partition."""
    return {
        _Printed(said.target, rounds, policy, said.paper.partition(",")[0])
        for said in claims
        if said.partition == split and said.rounds
        for policy, rounds in zip((said.policy, said.base), said.rounds, strict=True)
    }


def _mark(axes: Axes, printed: set[_Printed], last: int) -> None:
    """Draw a cross for each that is within the rounds, and write the others at the right edge, the latest outermost."""
    beyond: Counter[float] = Counter()
    for point in sorted(printed, reverse=True):
        colour = STYLES[point.policy]["color"]
        if point.rounds <= last:
            axes.plot(point.rounds, 100 * point.target, color=colour, **_CROSSES[point.paper])
            continue
        axes.annotate(
            f"{point.rounds} →",
            (1, 100 * point.target),
            (-_WIDTH * beyond[point.target], 9),
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            horizontalalignment="right",
            color=colour,
        )
        beyond[point.target] += 1
