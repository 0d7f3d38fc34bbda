"""The pictures of experiments: a row for each panel, and one loop that draws them all."""

import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from aoi_fl.report.judging import interval

SIZE = 12  # points
_DPI = 110
_SHADES = 256  # colours of a picture: a third of the bytes
_WIDE, _PANEL, _LEGEND = 9.0, 3.6, 0.3  # inches: the picture, a row of panels, a row of the legend
_ACROSS, _NAMES = 3, 3  # panels and names side by side
_LONG = 30  # characters of a name, beyond which fewer stand side by side

COLOURS = ("#404040", "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7")  # of Okabe & Ito (2008)
_MARKERS = "osv^D"

_LOOK = {
    "font.size": SIZE,
    "axes.titlesize": SIZE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E3E3E3",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.markersize": 4,
}


@dataclass(frozen=True)
class Panel:
    """A panel: columns of the rows against another column, as means over seeds with bands of 95 %.

    Attributes
    ----------
    y : one column, or more, each with a line of its own
    label : of the vertical axis
    x : the column of the horizontal axis, and its name
    by : columns of which each combination of values has a line
    each : columns of which each combination of values has a panel
    where : values that the rows have in other columns
    log : the logarithmic axes, of "x" and "y"
    low : the least value that is drawn
    """

    y: str | tuple[str, ...] = "accuracy"
    label: str = "test accuracy"
    x: str = "round"
    by: tuple[str, ...] = ("policy",)
    each: tuple[str, ...] = ()
    where: Mapping[str, Any] = field(default_factory=dict)
    log: str = ""
    low: float | None = None


def draw(path, plot):
    """Let ``plot(figure)`` draw on a white figure, and save it as PNG."""
    with matplotlib.rc_context(_LOOK):
        figure = Figure(figsize=(_WIDE, 4.6), layout="constrained")
        FigureCanvasAgg(figure)
        plot(figure)
        path.parent.mkdir(parents=True, exist_ok=True)
        file = io.BytesIO()
        figure.savefig(file, dpi=_DPI)
        flat = Image.open(file).convert("RGB").quantize(_SHADES, dither=Image.Dither.NONE)
        flat.save(path, optimize=True)


def draw_charts(figure, charts, rows):
    """Draw the panels of all charts, with one legend below them."""
    panels = []
    for chart in charts:
        chosen = {}
        for row in rows:
            if chart.where.items() <= row.items():
                title = ", ".join(f"{column} {row[column]}" for column in chart.each)
                chosen.setdefault(title, []).append(row)
        panels += [(chart, title, _lines(chart, these)) for title, these in chosen.items()]
    down = -(-len(panels) // _ACROSS) or 1
    names = dict.fromkeys(name for _, _, lines in panels for name in lines)
    styles = dict(zip(names, zip(cycle(COLOURS), cycle(_MARKERS), strict=False), strict=False))
    figure.set_size_inches(_WIDE, _PANEL * down + _LEGEND * len(names) / _NAMES)
    grid = figure.subplots(down, min(len(panels), _ACROSS) or 1, squeeze=False)
    for axes, (chart, title, lines) in zip(grid.flat, panels, strict=False):
        for name, points in lines.items():
            colour, marker = styles[name]
            x, ends = [*points], [interval(of) for of in points.values()]
            if isinstance(x[0], str):  # places without an order have bars
                axes.errorbar(
                    x, [end.mean for end in ends], [end.bar for end in ends], fmt=marker, color=colour, label=name
                )
                continue
            means = [math.nan if "y" in chart.log and end.mean <= 0 else end.mean for end in ends]
            axes.plot(x, means, color=colour, marker=marker, markevery=0.1, label=name)
            low, high = ([end.mean + way * end.bar for end in ends] for way in (-1, 1))
            axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        scales = {f"{axis}scale": "log" for axis in chart.log}
        axes.set_title(title, fontsize="x-small")
        axes.set(xlabel=chart.x, ylabel=chart.label, **scales)
        if chart.low is not None:
            best = max(sum(of) / len(of) for points in lines.values() for of in points.values())
            axes.set_ylim(chart.low, best + 0.01)
    for axes in [*grid.flat][len(panels) :]:
        axes.remove()
    legend = {name: of for axes in figure.axes for of, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    if len(legend) > 1:
        figure.legend(
            legend.values(),
            legend,
            loc="outside lower center",
            ncols=2 if max(map(len, legend)) > _LONG else _NAMES,
            fontsize="small",
        )


def _lines(chart, rows):
    """Return for each line its places, each with a value of every seed: the mean of the seed's rows there."""
    columns = (chart.y,) if isinstance(chart.y, str) else chart.y
    lines = {}
    for row in rows:
        for column in columns:
            if row.get(column) is not None:
                name = ", ".join(str(row[c]) for c in chart.by) if len(columns) == 1 else column
                seeds = lines.setdefault(name, {}).setdefault(row[chart.x], {})
                seeds.setdefault(row.get("seed"), []).append(row[column])
    return {
        name: {x: [sum(of) / len(of) for of in seeds.values()] for x, seeds in sorted(points.items())}
        for name, points in lines.items()
    }


def beside(axes, place, found, dots, colour):
    """Draw a mean with its interval along a line of the picture, and each seed's value as a dot."""
    axes.plot(dots, [place] * len(dots), ".", color=colour, alpha=0.4)
    axes.errorbar([found.mean], [place], xerr=[found.bar], capsize=3, marker="o", color=colour)


def lines(axes, names, room=0.5):
    """Draw the base at 0, and name the lines beside it from the top down."""
    axes.axvline(0, color=COLOURS[0])
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 1 + room, -room)


def legend_below(figure, axes):
    """Put the axes' legend under the whole figure."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
