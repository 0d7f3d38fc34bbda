"""The picture of learning curves, and what policies are above random selection, in pairs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from aoi_fl.lab.experiments.harness.drawing import CROSS, STYLES, error_bars, goes_on, legend_below
from aoi_fl.lab.experiments.harness.findings import GLOBECOM, JOURNAL
from aoi_fl.lab.experiments.harness.stats import Interval, interval
from aoi_fl.lab.experiments.papers.paper_claims import PaperClaim
from aoi_fl.lab.experiments.papers.speed import BASE, Curves

_CROSSES: Mapping[str, dict[str, Any]] = {GLOBECOM: {**CROSS}, JOURNAL: {**CROSS, "marker": "+", "markersize": 12}}
_SIGNS = {GLOBECOM: "×", JOURNAL: "+"}  # the same, as they are written
_SCALED = 25  # points: a half width from which on an interval does not set the scale, as after a run diverged
_ARROW, _WIDTH = 12, 33  # points: of an arrow, and of a number of rounds, written beside the edge


def draw(
    figure: Figure, title: str, curves: Mapping[str, Curves], targets: Mapping[str, float], claims: Sequence[PaperClaim]
) -> None:
    """Draw each policy's mean accuracy with the target, and below its paired gain over random selection.

    The lower panel has means over a tenth of the rounds. The first rounds set neither scale; arrows mark intervals that
    cross an edge. Crosses are the papers' rounds to a target; later ones stand beside the right edge.

    Parameters
    ----------
    curves, targets : of each partition
    claims : with the printed rounds to draw
    """
    compared = any(found.keys() != {BASE} for found in curves.values())
    many = any(len(curve) > 1 for found in curves.values() for curve in found.values())
    figure.set_size_inches(9, 7.5 if compared else 4.6)
    late, printed = [100 * targets[split] for split in curves], set[_Printed]()
    panels = figure.subplots(1 + compared, len(curves), sharex=True, sharey="row", squeeze=False)
    above, below = panels[0], panels[-1]
    tenths: list[tuple[Axes, str, list[_Point]]] = []
    for top, bottom, (split, found) in zip(above, below, curves.items(), strict=True):
        percents = {policy: 100 * curve for policy, curve in found.items()}
        for policy, curve in percents.items():
            x = np.arange(1, curve.shape[1] + 1)
            style: dict[str, Any] = {**STYLES[policy], "markevery": max(1, len(x) // 8)}
            top.plot(x, curve.mean(axis=0), label=policy, **style)
            late += curve.mean(axis=0)[min(4, len(x) - 1) :].tolist()
        if compared:
            bottom.axhline(0, color=STYLES[BASE]["color"])
        gains = {p: c - percents[BASE] for p, c in percents.items() if p != BASE}
        tenths += [(bottom, policy, points) for policy, points in _tenths(bottom, gains).items()]
        top.axhline(100 * targets[split], color="#888888", linestyle=":", label="target")
        found_in = _printed(split, claims)
        _mark(top, found_in, len(x))
        late += [100 * point.target for point in found_in]
        printed |= found_in
        top.set_title(f"{split}, target {targets[split]:.0%}")
        bottom.set_xlabel("round")
    of_whom = "; printed in papers: in the policy's colour" if printed else ""
    figure.suptitle(title + of_whom, fontsize="medium")
    low, high = min(late), max(late)
    above[0].set_ylim(low - 0.03 * (high - low), high + 0.05 * (high - low))
    above[0].set_ylabel(f"test accuracy in %,\n{'mean over seeds' if many else 'one seed'}")
    if compared:
        _scale(below[0], tenths)
        spread = "95 % interval" if many else "one seed"
        below[0].set_ylabel(f"points above random, {spread},\nmeans of a tenth of the rounds")
        figure.align_ylabels()
    played = set().union(*curves.values())
    for policy in [p for p in STYLES if p not in played and any(point.policy == p for point in printed)]:
        above[0].plot([], [], color=STYLES[policy]["color"], linestyle="-", label=f"{policy}, not played")
    for paper, cross in _CROSSES.items():
        if any(point.paper == paper for point in printed):
            above[0].plot([], [], color="black", label=f"printed in {paper}", **cross)
    if any(point.rounds > len(x) for point in printed):
        above[0].plot(
            [], [], color="black", label="printed, beyond the axis", linestyle="", marker="$→$", markersize=13
        )
    legend_below(figure, above[0], 3)


class _Point(NamedTuple):
    round: float
    gain: Interval


def _tenths(axes: Axes, gains: Curves) -> dict[str, list[_Point]]:
    """Draw (seeds, rounds) differences as means over a tenth of the rounds, policies side by side; return the means."""
    found = {}
    for i, (policy, gain) in enumerate(gains.items()):
        rounds = gain.shape[1]
        stretches = np.array_split(np.arange(rounds), min(10, rounds))
        aside = 1 + (i - (len(gains) - 1) / 2) * rounds / 10 / (len(gains) + 1)
        places = [float(stretch.mean()) + aside for stretch in stretches]
        means = [gain[:, stretch].mean(axis=1).tolist() for stretch in stretches]
        error_bars(axes, places, means, linestyle="", **STYLES[policy])
        found[policy] = [_Point(place, interval(of)) for place, of in zip(places, means, strict=True)]
    return found


def _scale(axes: Axes, tenths: Sequence[tuple[Axes, str, list[_Point]]]) -> None:
    """Scale the panels, which share y, by all tenths but the first and diverged ones; draw arrows at an edge."""
    gains = [gain for *_, points in tenths for _, gain in points[1:] if gain.bar < _SCALED]
    ends = [0.0, *(gain.mean + side * gain.bar for gain in gains for side in (-1, 1))]
    margin = 0.08 * (max(ends) - min(ends)) or 1.0
    axes.set_ylim(min(ends) - margin, max(ends) + margin)
    for panel, policy, points in tenths:
        for place, gain in points:
            goes_on(panel, "y", place, gain, STYLES[policy]["color"])


class _Printed(NamedTuple):
    target: float
    rounds: int
    policy: str
    paper: str


def _printed(split: str, claims: Sequence[PaperClaim]) -> set[_Printed]:
    """Return the printed numbers of a partition."""
    return {
        _Printed(said.target, rounds, policy, said.paper.partition(",")[0])
        for said in claims
        if said.partition == split and said.rounds
        for policy, rounds in zip((said.policy, said.base), said.rounds, strict=True)
    }


def _mark(axes: Axes, printed: set[_Printed], last: int) -> None:
    """Draw a cross for each that is within the rounds, and write the others beside the edge, the earliest first."""
    beyond: Counter[float] = Counter()
    for point in sorted(printed):
        colour, place = STYLES[point.policy]["color"], beyond[point.target]
        if point.rounds <= last:
            axes.plot(point.rounds, 100 * point.target, color=colour, **_CROSSES[point.paper])
            continue
        axes.annotate(
            f"{_SIGNS[point.paper]}{point.rounds}" if place else f"→ {_SIGNS[point.paper]}{point.rounds}",
            (1, 100 * point.target), (3 + _WIDTH * place + _ARROW * (place > 0), 0),
            xycoords=axes.get_yaxis_transform(), textcoords="offset points", verticalalignment="center",
            fontsize="small", color=colour,
        )  # fmt: skip
        beyond[point.target] += 1
