"""The evenness of the load: the distribution of X and √Var(Y)/T, measured and in theory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.report.chart import Chart, colour, curve, layout, numbers, plain, theory_line, whole
from aoi_fl.report.participation import refreshes
from aoi_fl.report.seeds import Setting
from aoi_fl.science import load
from aoi_fl.science.interval_law import window_deviation

_MOST_BINS = 60
_DOTTED = " The dotted line is the theory."
_MOST_DECADES = 2.5  # of an axis with labels at 1, 2 and 5 of each decade; a longer axis has labels at 1 only
_MARGIN = 0.02  # decades beyond the outermost ticks
_DECADES = [float(f"{m}e{e}") for e in range(-6, 1) for m in (1, 2, 5)]


def intervals(settings: Sequence[Setting]) -> Chart | None:
    """Return the distribution of the intervals X between two selections, with the theory's.

    Long intervals are binned: several lengths share a bar.
    """
    counts = {
        i: seeds
        for i, setting in enumerate(settings)
        if (seeds := [count for run in setting.runs if (count := load.interval_counts(run.history))])
    }
    if not counts:
        return None
    alone = len(settings) == 1
    longest = max(max(count) for seeds in counts.values() for count in seeds)
    width = -(-longest // _MOST_BINS)
    first = np.arange(1, longest + 1, width)
    middle = first + (width - 1) / 2
    bins = [str(a) if width == 1 else f"{a}–{a + width - 1}" for a in first.tolist()]
    hover = f"%{{x{'' if width == 1 else ':.0f'}}} rounds: %{{y:.4f}}"
    data: list[dict[str, Any]] = []
    columns, table = ["rounds X"], [bins]
    theories = 0
    for i, seeds in counts.items():
        label = settings[i].label
        number = [
            _binned(np.bincount(list(count), list(count.values()))[1:].astype(np.float64), width, len(first))
            for count in seeds
        ]
        shares = [(middle, each / each.sum()) for each in number]
        drawn = curve(i, "measured" if alone else label, shares, hover, most=1.0)
        if alone and len(seeds) == 1:  # bars of several settings would overlap, and bars of seeds would hide the band
            drawn[-1] |= {"type": "bar", "marker": {"color": colour(i), "opacity": 0.75}}
            del drawn[-1]["mode"], drawn[-1]["line"]
        data += drawn
        columns.append(f"{label}: intervals")
        table.append(plain(np.sum(number, axis=0).astype(np.int64)))
        for column, values in numbers(f"{label}: share", shares, most=1.0).items():
            columns.append(column)
            table.append(list(values.values()))
        if (policy := settings[i].first.law) is not None:
            theories += 1
            pmf = _binned(policy.interval_pmf(), width, len(first))
            name, mode = ("theory", "lines+markers") if alone else (f"{label}, theory", "lines")
            data.append(theory_line(i, name, middle, pmf, hover, mode=mode))
            columns.append(f"{label}: theory")
            table.append(plain(pmf))
    note = "How long a client waits until its next turn. A narrow peak is a regular load."
    note += (_DOTTED if theories else "") + refreshes([run for setting in settings for run in setting.runs])
    detail = (
        "This is the load metric X of Javani and Wang, counted between two consecutive rounds of the same client, all "
        "clients together. Intervals that are open when the run ends are not counted. A short run therefore has fewer "
        "long ones than the theory."
    )
    form = layout("rounds", "share of the turns", whole([1, longest]), bargap=0.15, showlegend=alone)
    return Chart(
        "intervals",
        "Rounds between two turns",
        note,
        data,
        form,
        columns,
        [list(row) for row in zip(*table, strict=True)],
        detail=detail,
    )


def _binned(values: NDArray[np.float64], width: int, bins: int) -> NDArray[np.float64]:
    """Return (bins,) sums over ``width`` values each, padded with 0 or cut."""
    values = values[: bins * width]
    return np.asarray(np.pad(values, (0, bins * width - len(values))).reshape(bins, width).sum(axis=1))


def deviation(settings: Sequence[Setting]) -> Chart | None:
    """Return √Var(Y)/T against the window T on logarithmic axes, with the theory if any."""
    theories, alone = 0, len(settings) == 1
    data: list[dict[str, Any]] = []
    table: dict[str, dict[Any, Any]] = {}
    for i, setting in enumerate(settings):
        measured = [load.window_deviation(run.history) for run in setting.runs if len(run.selected[0])]
        if not measured:
            continue
        curves = [(list(spread), list(spread.values())) for spread in measured]
        label = "measured" if alone else setting.label
        data += curve(i, label, curves, "%{x} rounds: %{text}", mode="lines+markers")
        table |= numbers(f"{setting.label}: measured", curves)
        if (policy := setting.first.law) is not None:
            theories += 1
            windows = list(measured[0])
            expected = window_deviation(policy, windows)
            name = "theory" if alone else f"{setting.label}, theory"
            data.append(theory_line(i, name, windows, expected, "%{x} rounds: %{text}"))
            table |= numbers(f"{setting.label}: theory", [(windows, expected)])
    if not data:
        return None
    note = "How far the loads of clients differ within a number of rounds. Lower is more even."
    note += (_DOTTED if theories else "") + refreshes([run for setting in settings for run in setting.runs])
    detail = (
        "This is √Var(Y)/T. Y is the number of rounds in which a client takes part, out of a window of T rounds. The "
        "variance is over clients and windows. A short run has few long windows, so their values are rough."
    )
    x = {"type": "log", "tickvals": list(load.WINDOWS)}
    values = [v for trace in data if "fill" not in trace for v in trace["y"] if v is not None]
    range_ = _range(np.array([value for value in values if value > _DECADES[0]]))
    floor = 10 ** (range_[0] + _MARGIN)
    if zeros := any(value <= _DECADES[0] for value in values):
        note += " The lowest line is a perfectly even load, 0."
    for trace in data:  # a logarithmic axis has no 0
        trace["text"] = ["" if v is None else f"{v:.4f}" for v in trace["y"]]
        trace["y"] = [v if v is None else max(v, floor) for v in trace["y"]]
    decades = range_[1] - range_[0]
    labelled = [tick for tick in _DECADES if decades < _MOST_DECADES or f"{tick:e}".startswith("1.")]
    names = {tick: f"{tick:g}" for tick in labelled} | (
        {min(_DECADES, key=lambda tick: abs(tick - floor)): "0"} if zeros else {}
    )
    y = {"type": "log", "range": range_, "tickvals": list(names), "ticktext": list(names.values())}
    form = layout("window in rounds", "spread of the load", x=x, y=y, showlegend=alone)
    columns = list(table.values())
    listed = [[w, *(column.get(w) for column in columns)] for w in load.WINDOWS]
    return Chart("deviation", "Evenness over time", note, data, form, ["window T", *table], listed, detail=detail)


def _range(values: NDArray[np.float64]) -> list[float]:
    """Return the exponents of a logarithmic axis's ends, which lie beyond two ticks."""
    if not values.size:
        return [-1.0 - _MARGIN, _MARGIN]
    ticks = np.array([*_DECADES, 10.0])
    low = int(np.searchsorted(ticks, values.min(), side="right")) - 1
    high = max(int(np.searchsorted(ticks, values.max())), low + 1)
    return [float(np.log10(ticks[max(low, 0)])) - _MARGIN, float(np.log10(ticks[high])) + _MARGIN]
