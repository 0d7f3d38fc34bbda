"""The picture of unequal data: how many rounds later than random selection each policy is, and at equal data."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from aoi_fl.experiments.figures.unequal_found import BASE, each, later, runs
from aoi_fl.experiments.harness.base import Row
from aoi_fl.experiments.harness.drawing import COLOURS, SIZE

_PANEL = 4.0  # inches that a panel is high
_BELOW = 0.3  # by so much of a line the one at equal data is lower


def drawn(rows: Sequence[Row], figure: Figure, policies: Sequence[str], splits: Sequence[str]) -> None:
    """Draw each policy's time shift with its interval, and each seed's as a dot, a panel for each partition."""
    found = {split: {p: of for p in policies if (of := runs(rows, split, p))} for split in splits}
    there = [split for split in splits if BASE in found[split]]
    names = [p for p in policies if p != BASE and any(p in found[split] for split in there)]
    lines = max(1, -(-len(there) // 2))
    figure.set_figheight(_PANEL * lines)
    panels = figure.subplots(lines, min(len(there), 2) or 1, sharex=True, sharey=True, squeeze=False).ravel()
    for axes in panels[len(there) :]:
        axes.set_visible(False)
    for axes, split in zip(panels, there, strict=False):
        base = found[split][BASE]
        axes.axvline(0, color="#404040", linewidth=1.2)
        for place, policy in enumerate(names):
            ours, colour = found[split].get(policy, {}), COLOURS[place % len(COLOURS)]
            if (mean := later(ours, base)) is None:
                continue
            late = each(ours, base)
            axes.plot(late, np.full(len(late), place), ".", color=colour, alpha=0.5)
            axes.errorbar([mean.mean], [place], xerr=[mean.bar], capsize=3, marker="o", color=colour)
            if work := later(ours, base, at_equal_data=True):
                at = [place + _BELOW]
                axes.errorbar([work.mean], at, xerr=[work.bar], capsize=3, marker="s", color=colour, mfc="white")
        axes.set_title(split)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    figure.supxlabel(
        "● rounds later than random at 94 to 96.9 %, dots: seeds; □ the same at equal data; 95 % intervals",
        fontsize=SIZE,
    )
