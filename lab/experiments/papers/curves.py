"""The picture of learning curves, a line a seed, and by how many rounds policies are later than random selection."""

import numpy as np

from aoi_fl.lab.experiments.harness.drawing import COLOURS, beside, legend_below, lines
from aoi_fl.lab.experiments.harness.stats import interval
from aoi_fl.lab.experiments.harness.times import NOT_BY_ALL, levels, shifts
from aoi_fl.lab.experiments.papers.speed import BASE

_BELOW, _ABOVE = 12.0, 5.0  # points of accuracy around the target that are drawn
_LINE = 0.34  # inches of a policy below the curves


def draw(figure, title, curves, targets):
    """Draw each seed's accuracy with the target, and below the paired time shifts with their intervals.

    ``curves`` and ``targets`` are of each partition.
    """
    names = [*dict.fromkeys(policy for found in curves.values() for policy in found if policy != BASE)]
    colours = dict(zip((BASE, *names), COLOURS, strict=False))
    low = 0.9 + _LINE * max(len(names), 2)
    figure.set_size_inches(9, 3.6 + low)
    panels = figure.subplots(2, len(curves), sharex="row", sharey="row", squeeze=False, height_ratios=(3.6, low))
    for (above, below), (split, found) in zip(panels.T, curves.items(), strict=True):
        for policy, curve in found.items():
            for seed, accuracy in enumerate(100 * curve):
                label = policy if seed == 0 else None
                above.plot(1 + np.arange(len(accuracy)), accuracy, color=colours[policy], label=label, lw=0.9)
        target = targets[split]
        above.axhline(100 * target, color="#888888", linestyle=":")
        above.set(title=f"{title}, {split}, target {target:.0%}", xlabel="round")
        _shifts(below, found, names, target, colours)
    panels[0, 0].set_ylabel("test accuracy in %, a line a seed")
    tops = [100 * level for level in targets.values()]
    panels[0, 0].set_ylim(min(tops) - _BELOW, min(100.0, max(tops) + _ABOVE))
    legend_below(figure, panels[0, 0])


def _shifts(axes, found, names, target, colours):
    """Draw how many rounds later than random selection each policy is, with its interval and a dot a seed."""
    lines(axes, names, 0.6)
    for place, policy in enumerate(names):
        late = shifts(found[policy], found[BASE], target) if policy in found else np.array([])
        if not late.size or not np.isfinite(late).all():
            text = NOT_BY_ALL if late.size else "not run"
            axes.text(0.98, place, text, transform=axes.get_yaxis_transform(), ha="right", va="center", color="#606060")
            continue
        beside(axes, place, interval(late), late, colours[policy])
    span = levels(target)
    axes.set_xlabel(f"← earlier · rounds later than random\nat {span[0]:.1%} to {span[-1]:.1%}, 95 % intervals")
