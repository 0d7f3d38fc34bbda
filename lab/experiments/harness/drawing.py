"""The look of the pictures: legible on any page, and without red against green."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure
from PIL import Image

from aoi_fl.lab.experiments.harness.base import Values
from aoi_fl.lab.experiments.harness.stats import Interval, interval

SIZE = 12  # points
_DPI = 110
_SHADES = 256  # colours of a picture: a third of the bytes

# The palette of Okabe & Ito (2008), by policy, each with a marker of its own.
STYLES: Mapping[str, dict[str, Any]] = {
    "random": {"color": "#404040", "marker": "s"},
    "proportional": {"color": "#E69F00", "marker": "^"},
    "oldest-age": {"color": "#009E73", "marker": "D"},
    "markov-optimal": {"color": "#0072B2", "marker": "o"},
    "markov-increasing": {"color": "#D55E00", "marker": "v"},
    "systematic": {"color": "#56B4E9", "marker": "X"},
    "systematic size": {"color": "#56B4E9", "marker": "X"},
    "markov size": {"color": "#009E73", "marker": "D"},
    "memoryless": {"color": "#CC79A7", "marker": "P"},
    "wics": {"color": "#0072B2", "marker": "o"},
    "abs": {"color": "#E69F00", "marker": "^"},
    "maxpack": {"color": "#D55E00", "marker": "v"},
    "random-budget": {"color": "#404040", "marker": "s"},
}
# Printed numbers among measured ones.
CROSS: Values = {"marker": "x", "linestyle": "", "markersize": 9, "markeredgewidth": 2.2}
BASE = "#404040"  # what others are compared with
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#404040")

_LOOK = {
    "font.size": SIZE,
    "axes.titlesize": SIZE,
    "axes.labelsize": SIZE,
    "xtick.labelsize": SIZE - 1,
    "ytick.labelsize": SIZE - 1,
    "legend.fontsize": SIZE - 1,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E3E3E3",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}


def draw(path: Path, plot: Any, width: float = 9.0, height: float = 4.6) -> None:
    """Let ``plot(figure)`` draw on a white figure, and save it as PNG."""
    with matplotlib.rc_context(_LOOK):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        plot(figure)
        path.parent.mkdir(parents=True, exist_ok=True)
        file = io.BytesIO()
        figure.savefig(file, dpi=_DPI)
        flat = Image.open(file).convert("RGB").quantize(_SHADES, dither=Image.Dither.NONE)
        flat.save(path, optimize=True)


def error_bars(axes: Axes, x: Sequence[float], values: Sequence[Sequence[float]], **style: Any) -> None:
    """Draw means over seeds with their 95 % intervals: at each of (p,) places one value a seed."""
    means(axes, x, [interval(v) for v in values], capsize=2, elinewidth=1.2, **style)


def means(axes: Axes, x: Sequence[float], found: Sequence[Interval], **style: Any) -> Any:
    """Draw means with their intervals at (p,) places; a single seed has no bar."""
    return axes.errorbar(x, [f.mean for f in found], [f.bar for f in found], **style)


def beside(
    axes: Axes, place: float, found: Interval, dots: Sequence[float] = (), alpha: float = 0.5, **style: Any
) -> None:
    """Draw a mean with its interval along a line of the picture, and each seed's value as a dot."""
    if len(dots):
        axes.plot(dots, np.full(len(dots), place), ".", color=style["color"], alpha=alpha)
    axes.errorbar([found.mean], [place], xerr=[found.bar], capsize=3, **style)


def lines(axes: Axes, names: Sequence[str], room: float = 0.5) -> None:
    """Draw the base at 0, and name the lines beside it from the top down."""
    axes.axvline(0, color=BASE, linewidth=1.2)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 1 + room, -room)


def goes_on(axes: Axes, along: Literal["x", "y"], place: float, found: Interval, colour: str) -> bool:
    """Draw an arrow at each edge that an interval crosses, and return whether there is one."""
    (low, high), arrows = (axes.get_xlim(), ("left", "right")) if along == "x" else (axes.get_ylim(), ("down", "up"))
    beyond = (found.mean - found.bar < low, found.mean + found.bar > high)
    for edge, arrow, there in zip((low, high), arrows, beyond, strict=True):
        if there:
            at = (edge, place) if along == "x" else (place, edge)
            axes.plot(*at, marker=rf"$\{arrow}arrow$", markersize=10, color=colour, clip_on=False)
    return any(beyond)


def legend_below(figure: Figure | SubFigure, axes: Axes, columns: int = 4) -> None:
    """Put the axes' legend under the whole figure."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)
