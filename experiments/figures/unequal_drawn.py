"""The picture of unequal data: how many rounds later than random selection each policy is, and at equal data."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from aoi_fl.experiments.figures.unequal_runs import BASE, each, later, runs
from aoi_fl.experiments.harness.base import Row
from aoi_fl.experiments.harness.drawing import COLOURS, SIZE, goes_on
from aoi_fl.experiments.harness.stats import Interval
from aoi_fl.experiments.harness.times import NOT_BY_ALL

_PANEL = 4.0  # inches that a panel is high
_BELOW = 0.3  # by so much of a line the one at equal data is lower
_LEAST, _MOST = -6.0, 10.0  # rounds; what is further off is told in words


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
    panels[0].set_xlim(_LEAST, _MOST)
    for axes, split in zip(panels, there, strict=False):
        base = found[split][BASE]
        axes.axvline(0, color="#404040", linewidth=1.2)
        for place, policy in enumerate(names):
            ours, colour = found[split].get(policy, {}), COLOURS[place % len(COLOURS)]
            if (mean := later(ours, base)) is None:
                axes.text(1, place, NOT_BY_ALL if ours else "not played yet", va="center", color="#606060")
                continue
            late = each(ours, base)
            axes.plot(late, np.full(len(late), place), ".", color=colour, alpha=0.5)
            _draw(axes, place, mean, colour, "o", colour)
            if work := later(ours, base, at_equal_data=True):
                _draw(axes, place + _BELOW, work, colour, "s", "white")
        axes.set_title(split)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    figure.supxlabel(
        "← earlier · rounds · later than random at 94 to 96.9 % →\n"
        "● in rounds, dots: seeds; □ after as much data; 95 % intervals",
        fontsize=SIZE,
    )


def _draw(axes: Axes, place: float, found: Interval, colour: str, marker: str, face: str) -> None:
    axes.errorbar([found.mean], [place], xerr=[found.bar], capsize=3, marker=marker, color=colour, mfc=face)
    if goes_on(axes, "x", place, found, colour):
        axes.text(0.4, place, found.show(1), va="center", color=colour, fontsize="x-small")
