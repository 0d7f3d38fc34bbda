"""A chart as a file for a paper, drawn by matplotlib: PDF with embedded fonts, SVG or PNG."""

from __future__ import annotations

import html
import io
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from aoi_fl.report.chart import Chart
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


def _line(axes: Axes, trace: dict[str, Any]) -> None:
    x, y = _numbers(trace["x"]), _numbers(trace["y"])
    line, marker = trace.get("line") or {}, trace.get("marker") or {}
    if trace.get("fill"):
        axes.fill(x, y, color=_colour(trace["fillcolor"]), alpha=trace.get("opacity", 1), linewidth=0)
        return
    mode, square = trace.get("mode", "lines"), marker.get("symbol") == "square"
    axes.plot(
        x,
        y,
        color=_colour(line.get("color") or marker.get("color")),
        linestyle=_DASHES.get(line.get("dash", ""), "-") if "lines" in mode else "none",
        linewidth=0.6 * line.get("width", 2),
        marker=("s" if square else "o") if "markers" in mode else None,
        markersize=5 if square else 2.5,
        label=_label(trace),
    )


def _bars(axes: Axes, trace: dict[str, Any]) -> None:
    marker = trace.get("marker") or {}
    axes.bar(
        _numbers(trace["x"]),
        _numbers(trace["y"]),
        color=_colour(marker.get("color")),
        alpha=marker.get("opacity", 1),
        label=_label(trace),
    )


def _heat_map(axes: Axes, trace: dict[str, Any]) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    scale = [(float(at), _colour(name)) for at, name in trace["colorscale"]]
    values = _numbers(trace["z"])
    x, y = (
        _numbers(trace[side]) if side in trace else np.arange(values.shape[axis]) for side, axis in (("x", 1), ("y", 0))
    )
    colours = LinearSegmentedColormap.from_list("trace", scale)
    axes.pcolormesh(
        x,
        y,
        values,
        cmap=colours,
        vmin=trace.get("zmin"),
        vmax=trace.get("zmax"),
        rasterized=True,
        edgecolors="white" if trace.get("xgap") else "none",
        linewidth=0.3,
    )


def _axis(axes: Axes, side: str, layout: dict[str, Any]) -> None:
    getattr(axes, f"set_{side}label")(_plain(layout["title"]["text"]))
    if layout.get("type") == "log":
        getattr(axes, f"set_{side}scale")("log")
    if "tickvals" in layout:
        getattr(axes, f"set_{side}ticks")(
            layout["tickvals"], [_plain(t) for t in layout.get("ticktext", layout["tickvals"])]
        )
    elif layout.get("dtick") == 1:
        getattr(axes, f"{side}axis").get_major_locator().set_params(integer=True)
    if limits := layout.get("range"):
        getattr(axes, f"set_{side}lim")([10.0**end for end in limits] if layout.get("type") == "log" else limits)


def _numbers(values: list[Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array(values, np.float64)  # None becomes NaN


def _colour(name: Any) -> Any:
    return light_palette().get(str(name), name) if isinstance(name, str) else "black"


def _label(trace: dict[str, Any]) -> str | None:
    return None if trace.get("showlegend") is False else _plain(trace.get("name", "")) or None


def _plain(text: Any) -> str:
    """Return Plotly's text without markup, for matplotlib."""
    return html.unescape(re.sub(r"<[^>]*>", " ", str(text))).replace("$", r"\$")
