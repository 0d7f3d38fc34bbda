"""A chart as plain data: a Plotly figure of dicts and lists, its numbers and its texts.

Colours are names of CSS custom properties (``--run0``, ``--ink``, …), which the page's theme defines. The module does
not need Plotly, so a live page can send the same figures.
"""

import html
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from aoi_fl.report.judging import LEAST_SEEDS
from aoi_fl.report.runs import RecordedRun
from aoi_fl.report.seeds import Curve, Setting, average
from aoi_fl.science.types import Floats

Trace: TypeAlias = dict[str, Any]
Layout: TypeAlias = dict[str, Any]
Column: TypeAlias = dict[Any, Any]  # y by x
RUN_COLOURS = 8
HEIGHT = 280  # pixels of a chart
_STYLES = Path(__file__).with_name("templates").joinpath("styles.json").read_text("utf-8")
_DASHES = ("solid", "dash", "longdash", "dashdot")  # lines of runs; a theory's line is dotted


@dataclass(frozen=True)
class Chart:
    """One figure of a report.

    Attributes
    ----------
    name : its identifier in the page, of letters, digits and hyphens
    title, note : plain text; the note explains the chart in a sentence or two
    data, layout : Plotly's traces and layout
    columns, rows : the drawn numbers as a table
    overlay : whether it shows every run in its colour; otherwise it shows one run
    detail : symbols, sources and limits, shown when unfolded
    """

    name: str
    title: str
    note: str
    data: list[Trace]
    layout: Layout
    columns: list[str] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    overlay: bool = True
    detail: str = ""


def overlay(
    settings: Sequence[Setting],
    name: str,
    title: str,
    x: str,
    y: str,
    note: str,
    curve_of: Callable[[RecordedRun], Curve | None],
    hover: str,
    *,
    measured: str = "",
    column: str = "{}",
    theory: Callable[[Setting], Curve | None] | None = None,
    expected: str = "theory",
    detail: str = "",
    most: float = np.inf,
    tozero: bool = False,
) -> Chart | None:
    """Return a chart of the settings, each as the mean of its seeds, beside a theory if there is one.

    Parameters
    ----------
    settings : in the order of their colours
    name, title, note, detail : as of :class:`Chart`
    x, y : titles of the axes
    curve_of : a run's curve, or None; a setting without one is left out, and without any there is no chart
    hover : template of a point
    measured : the line's name where a single setting is drawn; "" leaves out the legend
    column : column of the table, with {} for the setting
    theory : a setting's theory, or None
    expected : the theory's name; the column of the table is "{name}, {setting}"
    most : the largest possible value
    tozero : whether the axis y begins at 0
    """
    data: list[Trace] = []
    table: dict[str, Column] = {}
    alone, described = len(settings) == 1, note
    for i, setting in enumerate(settings):
        if not (curves := list(filter(None, map(curve_of, setting.runs)))):
            continue
        label = measured if alone and measured else setting.label
        drawn, columns = curve(i, label, column.format(setting.label), curves, hover, most=most)
        data += drawn
        table |= columns
        if theory is not None and (expectation := theory(setting)) is not None:
            named = expected if alone else f"{setting.label}, {expected}"
            dotted = {"color": colour(i), "width": 1.5, "dash": "dot"}
            marker = {"color": colour(i), "size": 6, "symbol": "circle-open"}
            data.append(line(i, named, *expectation, hover, mode="lines", line=dotted, marker=marker))
            table[f"{expected}, {setting.label}"] = by_x(*expectation)
            described = f"{note} The dotted line is the {expected}."
    if not data:
        return None
    listed = rows(list(table.values()))
    ticks = whole([row[0] for row in listed])
    form = layout(x, y, ticks, {"rangemode": "tozero"} if tozero else None, showlegend=alone and bool(measured))
    return Chart(name, title, described, data, form, [x, *table], listed, detail=detail)


def colour(run: int) -> str:
    """Return the colour of the run at this position of the page."""
    return f"--run{run % RUN_COLOURS}"


def dash(run: int) -> str:
    """Return the dash of the line of the run at this position."""
    return _DASHES[run % len(_DASHES)]


def style(name: str) -> dict[str, Any]:
    """Return the constant part of a layout or a trace."""
    return dict(json.loads(_STYLES)[name])


def text(label: str) -> str:
    """Return a label with Plotly's markup escaped."""
    return html.escape(str(label))


def plain(values: ArrayLike) -> list[Any]:
    """Return values as JSON values: six significant digits, None for NaN and infinities.

    Examples
    --------
    >>> plain([1.0, float("nan"), 1 / 3])
    [1.0, None, 0.333333]
    """
    array = np.asarray(values)
    if array.ndim > 1:
        return [plain(row) for row in array]
    if array.dtype.kind != "f":
        return list(array.tolist())
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in array]


def line(run: int, label: str, x: ArrayLike, y: ArrayLike, hover: str, **more: Any) -> Trace:
    """Return a run's line, with markers for few points; ``hover`` is a point's template."""
    xs = plain(x)
    trace = {
        "type": "scatter",
        "mode": "lines+markers" if len(xs) <= 40 else "lines",
        "name": text(label),
        "x": xs,
        "y": plain(y),
        "line": {"color": colour(run), "width": 2, "dash": dash(run)},
        "marker": {"color": colour(run), "size": 5},
        "hovertemplate": f"{hover}<extra>{text(label)}</extra>",
    }
    return trace | more


def curve(
    run: int, label: str, column: str, curves: Sequence[Curve], hover: str, *, most: float = np.inf, **more: Any
) -> tuple[list[Trace], dict[str, Column]]:
    """Return a setting's traces and table: the seeds' mean, and from three seeds on a 95 % band.

    ``most`` is the largest possible value. The band of a quantity without negative values ends at 0. The table has
    columns by x.
    """
    if len(curves) == 1:
        return [line(run, label, *curves[0], hover, **more)], {column: by_x(*curves[0])}
    at, mean, half = average(curves)
    x = at.astype(np.int64) if (at == np.rint(at)).all() else at
    table = {f"{column}: mean": by_x(at, mean)}
    if len(curves) < LEAST_SEEDS:
        return [line(run, label, x, mean, hover, **more)], table
    low, high = ends(curves, mean, half, most)
    band = style("band") | {
        "x": [*plain(x), *plain(x[::-1])],
        "y": [*plain(high), *plain(low[::-1])],
        "line": {"width": 0, "color": colour(run)},
        "fillcolor": colour(run),
    }
    middle = line(run, label, x, mean, f"{hover} ± %{{customdata:.2g}}", customdata=plain(half), **more)
    return [band, middle], table | {f"{column}: from": by_x(at, low), f"{column}: to": by_x(at, high)}


def ends(curves: Sequence[Curve], mean: Floats, half: Floats, most: float = np.inf) -> tuple[Floats, Floats]:
    """Return both ends of an interval, (m,) each, limited to possible values.

    Examples
    --------
    >>> ends([([1], [90.0]), ([1], [99.0])], np.array([94.5]), np.array([57.2]), most=100)
    (array([37.3]), array([100.]))
    >>> ends([([1], [0.1]), ([1], [0.2])], np.array([0.15]), np.array([0.64]))
    (array([0.]), array([0.79]))
    >>> ends([([1], [-1.0]), ([1], [2.0])], np.array([0.5]), np.array([19.0]))  # a loss may be negative
    (array([-18.5]), array([19.5]))
    """
    values = np.concatenate([np.asarray(y, dtype=np.float64) for _, y in curves])
    least = 0.0 if np.nanmin(values, initial=np.inf) >= 0 else -np.inf
    return np.maximum(mean - half, np.minimum(least, mean)), np.minimum(mean + half, np.maximum(most, mean))


def by_x(x: ArrayLike, y: ArrayLike) -> Column:
    """Return a column of a table: y by x."""
    return dict(zip(plain(x), plain(y), strict=True))


def rows(columns: Sequence[Column]) -> list[list[Any]]:
    """Return a table's rows from columns by x: x, and each column's value or None."""
    return [[x, *(column.get(x) for column in columns)] for x in sorted(set().union(*columns))]


def whole(values: ArrayLike) -> Layout:
    """Return settings of an axis: with few values that are whole numbers, no ticks in between.

    Examples
    --------
    >>> whole([1, 2, 3]), whole([0, 400])
    ({'tick0': 0, 'dtick': 1}, {})
    """
    array = np.asarray(values, dtype=np.float64)
    span = float(np.ptp(array)) if array.size else 0.0
    return {} if span > 24 or (array != np.rint(array)).any() else {"tick0": 0, "dtick": 1 if span <= 12 else 5}


def layout(x_title: str, y_title: str, x: Layout | None = None, y: Layout | None = None, **more: Any) -> Layout:
    """Return the report's layout with axis titles and further settings."""
    form: Layout = {"height": HEIGHT} | style("layout")
    for axis, title, changes in (("xaxis", x_title, x), ("yaxis", y_title, y)):
        form[axis]["title"]["text"] = title
        form[axis] |= changes or {}
    return form | more


def swatch(name: str, colour_: str) -> Trace:
    """Return a trace that only adds a coloured square to the legend."""
    trace = style("swatch") | {"name": name}
    trace["marker"]["color"] = colour_
    return trace
