"""The picture of learning curves, and what policies are above random selection, in pairs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from aoi_fl.experiments.figures.said import Said
from aoi_fl.experiments.figures.speed import BASE, Curves
from aoi_fl.experiments.harness.drawing import CROSS, STYLES, legend_below, paired_tenths
from aoi_fl.experiments.harness.stats import interval


def draw(
    figure: Figure, title: str, curves: Mapping[str, Curves], targets: Mapping[str, float], claims: Sequence[Said]
) -> None:
    """Draw each policy's mean accuracy with the target, and under it what it is above random selection, in pairs.

    A round's difference is mostly noise: below are means over a tenth of the rounds, policies side by side. The first
    rounds, where little is learnt yet, set neither scale. Crosses are what the papers print: the rounds to a target.

    Parameters
    ----------
    curves : of each partition that was played
    targets : of each partition; where the axis ends at the least
    claims : whose printed rounds are drawn in
    """
    compared = any(found.keys() != {BASE} for found in curves.values())
    figure.set_size_inches(9, 7.5 if compared else 4.6)
    ends, late, printed = [0.0], [100 * targets[split] for split in curves], False
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
        for said in claims:
            if said.partition == split and said.rounds and max(said.rounds) <= len(x):
                for policy, rounds in zip((said.policy, said.base), said.rounds, strict=True):
                    top.plot(rounds, 100 * said.target, color=STYLES[policy]["color"], **CROSS)
                printed = True
                late.append(100 * said.target)
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
    if printed:
        above[0].plot([], [], color="black", label="printed in the papers", **CROSS)
    legend_below(figure, above[0], 3)
