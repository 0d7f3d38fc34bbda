"""A chart as a file for a paper, drawn by matplotlib: PDF with embedded fonts, SVG or PNG."""

from __future__ import annotations

import html
import io
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from aoi_fl.report.chart import Chart, Layout, Trace
from aoi_fl.report.template import light_palette
from aoi_fl.science.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("pdf", "svg", "png")
_STYLE: Any = {
    "pdf.fonttype": 42,
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "aoi",
}
_RATIO = 0.62  # height to width
_MOST_LEGEND = 8
_DASHES = {"dash": "--", "longdash": (0, (8, 3)), "dashdot": "-.", "dot": ":"}


def draw(chart: Chart, width: float, kind: str) -> bytes:
    """Return a chart as a file.

    Parameters
    ----------
    chart : of :func:`aoi_fl.report.figures.figures`
    width : inches
    kind : one of ``FORMATS``

    Raises
    ------
    ConfigError : matplotlib is not installed.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        remedy = "Install it: pip install matplotlib."
        raise ConfigError("matplotlib", None, "installed for figures of a paper", remedy) from error
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, _RATIO * width), layout="constrained")
        axes = figure.add_subplot()
        for trace in chart.data:
            {"heatmap": _heat_map, "bar": _bars}.get(trace["type"], _line)(axes, trace)
        for side in ("x", "y"):
            _axis(axes, side, chart.layout[f"{side}axis"])
        names = axes.get_legend_handles_labels()[1]
        if 1 < len(names) <= _MOST_LEGEND:
            if any(trace["type"] == "heatmap" for trace in chart.data):
                figure.legend(frameon=False, ncols=2, loc="outside upper left")
            else:
                axes.legend(frameon=False)
        file = io.BytesIO()
        figure.savefig(
            file, format=kind, dpi=300, metadata={"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind)
        )
    return file.getvalue()


def _line(axes: Axes, trace: Trace) -> None:
    x, y = _numbers(trace["x"]), _numbers(trace["y"])
    if trace.get("fill"):
        axes.fill(x, y, color=_colour(trace["fillcolor"]), alpha=trace["opacity"], linewidth=0)
        return
    line, marker = trace.get("line", {}), trace.get("marker", {})
    mode, square = trace["mode"], marker.get("symbol") == "square"
    axes.plot(
        x,
        y,
        color=_colour(line.get("color") or marker["color"]),
        linestyle=_DASHES.get(line.get("dash", ""), "-") if "lines" in mode else "none",
        linewidth=0.6 * line.get("width", 2),
        marker=("s" if square else "o") if "markers" in mode else None,
        markersize=5 if square else 2.5,
        label=_label(trace),
    )


def _bars(axes: Axes, trace: Trace) -> None:
    colour, opacity = _colour(trace["marker"]["color"]), trace["marker"]["opacity"]
    axes.bar(_numbers(trace["x"]), _numbers(trace["y"]), color=colour, alpha=opacity, label=_label(trace))


def _heat_map(axes: Axes, trace: Trace) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    colours = [(float(at), _colour(name)) for at, name in trace["colorscale"]]
    axes.pcolormesh(
        *(_numbers(trace[name]) for name in "xyz"),
        cmap=LinearSegmentedColormap.from_list("trace", colours),
        vmin=trace.get("zmin"),
        vmax=trace.get("zmax"),
        rasterized=True,
        edgecolors="white" if trace.get("xgap") else "none",
        linewidth=0.3,
    )


def _axis(axes: Axes, side: str, layout: Layout) -> None:
    values: dict[str, Any] = {"label": _plain(layout["title"]["text"])}
    if layout.get("type") == "log":
        values["scale"] = "log"
    if "tickvals" in layout:
        values |= {"ticks": layout["tickvals"], "ticklabels": list(map(_plain, layout["ticktext"]))}
    elif layout.get("dtick") == 1:
        getattr(axes, f"{side}axis").get_major_locator().set_params(integer=True)
    if "range" in layout:
        values["lim"] = layout["range"]
    axes.set(**{f"{side}{name}": value for name, value in values.items()})


def _numbers(values: list[Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array(values, np.float64)  # None becomes NaN


def _colour(name: str) -> str:
    return light_palette().get(name, name)


def _label(trace: Trace) -> str | None:
    return None if trace.get("showlegend") is False else _plain(trace.get("name", "")) or None


def _plain(text: Any) -> str:
    """Return Plotly's text without markup, for matplotlib."""
    return html.unescape(re.sub(r"<[^>]*>", " ", str(text))).replace("$", r"\$")
