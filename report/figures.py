"""The figures of a report: load, participation, learning, time or money.

``figures`` is a pure function of ledgers' values; :mod:`aoi_fl.report.page` makes a page of its charts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from aoi_fl.report import budget, participation
from aoi_fl.report.chart import Chart, Layout, colour, curve, layout, overlay
from aoi_fl.report.judging import LEAST_SEEDS
from aoi_fl.report.measure import JUDGES, LOSSES, LedgerMeasure, more
from aoi_fl.report.participation import refreshes
from aoi_fl.report.runs import RecordedRun
from aoi_fl.report.seeds import Curve, Setting, factors, settings
from aoi_fl.science import load
from aoi_fl.science.types import Floats

_MOST_METRICS = 24  # charts of an app's own metrics; the ledger has all
_BAND = "The line is the mean of the seeds. The band is its 95 % interval."
_MOST_BINS = 60
_LEAST_VALUES = 3  # of a swept key, to draw them on an axis
_DECADE = 10  # from this ratio on the axis is logarithmic
_POINTS = 60  # of a curve in simulated time
_HOUR = 3600.0
_SOURCES = {
    "test": "Of the global model on the server's test data after each round.",
    "client": "Of the global model on the clients' own data after each round: the mean by examples, or the app's.",
    "train": "As clients report it from their training: the mean by examples, or the app's.",
}


def figures(runs: Sequence[RecordedRun]) -> list[Chart]:
    """Return the charts of one or more runs in reading order, without empty ones.

    Line charts overlay the settings, each as the mean of its seeds. A heat map shows one seed of a setting. The setting
    at position i has the colour ``--run{i % 8}`` everywhere. Overlays have no legend, because the page lists the
    settings with their colours.
    """
    overlaid = settings(runs)
    several = len(overlaid) > 1
    each = [(i, setting, several) for i, setting in enumerate(overlaid)]
    money = [*budget.overlays(overlaid), *(budget.ages(*one) for one in each)]
    charts = [
        participation.counts(overlaid),
        _intervals(overlaid),
        _sweep(overlaid),
        *(participation.heat_map(*one) for one in each),
        *_learning(overlaid),
        overlay(
            overlaid,
            "at-work",
            "Clients at work",
            "minutes",
            "clients",
            "How many clients worked on a model, this one or an earlier one, while the run had no barrier.",
            _at_work,
            "%{x:.2f} min: %{y}",
            column="clients at work, {}",
        ),
    ]
    charts = [*money, *charts] if all(setting.first.budgeted for setting in overlaid) else [*charts, *money]
    shown = [chart for chart in charts if chart is not None]
    if max(len(setting.runs) for setting in overlaid) < LEAST_SEEDS:
        return shown
    return [replace(chart, detail=f"{chart.detail} {_BAND}".strip()) if chart.overlay else chart for chart in shown]


def _learning(overlaid: Sequence[Setting]) -> Iterator[Chart | None]:
    """Yield the charts of the model's measures, against rounds and against simulated time."""
    columns = [name for setting in overlaid for run in setting.runs for row in run.rounds[-1:] for name in row]
    for measure in (*JUDGES, *LOSSES, *more(columns)[:_MOST_METRICS]):
        yield overlay(
            overlaid,
            measure.column.replace("_", "-"),
            measure.title,
            "round",
            measure.axis,
            _SOURCES[measure.source],
            partial(_by_round, measure),
            f"round %{{x}}: %{{y:.4g}}{measure.unit}",
            column=f"{measure.axis}, {{}}",
            detail="Round 0 is the model before the first round." if measure.source == "test" else "",
            most=measure.most,
        )
    clocks = [run.column("clock") for setting in overlaid for run in setting.runs]
    last = float(np.nanmax(np.concatenate([[0.0], *clocks])))
    unit, name, short = (_HOUR, "hours", "h") if last >= 2 * _HOUR else (_HOUR / 60, "minutes", "min")
    for measure in JUDGES if last else ():
        yield overlay(
            overlaid,
            f"time-{measure.column.removeprefix('test_').replace('_', '-')}",
            f"{measure.title} in simulated time",
            f"simulated {name}",
            measure.axis,
            "Of the global model on the server's test data, after the last complete round.",
            partial(_by_time, measure, np.linspace(0, last, _POINTS + 1)[1:], unit),
            f"%{{x:.2f}} {short}: %{{y:.4g}}{measure.unit}",
            column=f"{measure.axis}, {{}}",
            most=measure.most,
        )


def _sweep(overlaid: Sequence[Setting]) -> Chart | None:
    """Return the main measure at the end against the values of a swept key; None unless one key has three numbers."""
    configs = [setting.first.config for setting in overlaid]
    numbers: dict[str, list[Any]] = {key: [config.get(key) for config in configs] for key in factors(configs)}
    swept = {key: v for key, v in numbers.items() if {*map(type, v)} <= {int, float} and len({*v}) >= _LEAST_VALUES}
    if len(swept) != 1:
        return None
    ((key, values),) = swept.items()
    measure = overlaid[0].measure
    data: list[Any] = []
    listed = []
    for i, (setting, value) in enumerate(zip(overlaid, values, strict=True)):
        if not (ends := setting.ends.values()):
            continue
        drawn, _ = curve(i, setting.label, "", [([value], [end]) for end in ends], "%{y:.4g}", most=measure.most)
        for band in drawn[:-1]:  # of one point, so it is a bar
            band.update(opacity=1, fill=None, line=band["line"] | {"width": 2})
        data += drawn
        listed.append([value, setting.label, drawn[-1]["y"][0]])
    if not data:
        return None
    ticks = sorted({*values})
    axis: Layout = {"tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}
    if ticks[0] > 0 and ticks[-1] >= _DECADE * ticks[0]:
        axis["type"] = "log"
    form = layout(key, measure.axis, axis, showlegend=False)  # the page lists the settings
    note = f"{measure.title} after the last round, for each value of {key}."
    title = f"{measure.title} by {key}"
    return Chart("sweep", title, note, data, form, [key, "setting", measure.axis], sorted(listed))


def _by_round(measure: LedgerMeasure, run: RecordedRun) -> Curve | None:
    """Return the values of a run's evaluated rounds; round 0 is the initial model."""
    start = run.about.get(f"initial_{measure.field}") if measure.source == "test" else None
    y = measure.scaled(np.concatenate([[np.nan if start is None else start], run.column(measure.column)]))
    known = np.isfinite(y)
    return (np.concatenate([[0], run.numbers])[known], y[known]) if run.rounds and known.any() else None


def _by_time(measure: LedgerMeasure, marks: Floats, unit: float, run: RecordedRun) -> Curve | None:
    """Return a run's latest value at the marks, which are simulated seconds, against time in a unit."""
    clock, value = run.column("clock"), run.column(measure.column)
    known = np.isfinite(clock) & np.isfinite(value)
    begun = marks[marks >= np.min(clock[known], initial=np.inf)]
    latest = np.searchsorted(clock[known], begun, side="right") - 1
    return (np.round(begun / unit, 4), measure.scaled(value)[known][latest]) if begun.size else None


def _at_work(run: RecordedRun) -> Curve | None:
    """Return how many clients were at work, against minutes of the clock, or of the machine, at each new model."""
    count, clock = run.column("at_work"), run.column("clock")
    clock = clock if np.isfinite(clock).any() else run.column("started") - run.column("started")[:1]
    known = np.isfinite(count) & np.isfinite(clock)
    if not known.any():
        return None
    marks = np.linspace(0, clock[known][-1], _POINTS + 1)
    return np.round(marks * 60 / _HOUR, 4), count[known][np.searchsorted(clock[known], marks)]


def _intervals(overlaid: Sequence[Setting]) -> Chart | None:
    """Return the distribution of the intervals X between two selections, with the theory's.

    Long intervals are binned: several lengths share a bar.
    """
    runs = [run for setting in overlaid for run in setting.runs]
    longest = max((length for run in runs for length in load.interval_counts(run.history)), default=0)
    if not longest:
        return None
    width = -(-longest // _MOST_BINS)
    first = np.arange(1, longest + 1, width)
    middle = first + (width - 1) / 2

    def binned(lengths: ArrayLike, values: ArrayLike) -> Floats:
        sums = np.bincount((np.asarray(lengths) - 1) // width, values, len(first))
        return np.asarray(sums[: len(first)], np.float64)

    def shares(run: RecordedRun) -> Curve | None:
        if not (counts := load.interval_counts(run.history)):
            return None
        sums = binned(list(counts), list(counts.values()))
        return middle, sums / sums.sum()

    def theory(setting: Setting) -> Curve | None:
        if (law := setting.first.law) is None:
            return None
        pmf = law.interval_pmf()
        return middle, binned(np.arange(1, len(pmf) + 1), pmf)

    chart = overlay(
        overlaid,
        "intervals",
        "Rounds between two turns",
        "rounds",
        "share of the turns",
        "How long a client waits until its next turn. A narrow peak is a regular load." + refreshes(runs),
        shares,
        f"%{{x{'' if width == 1 else ':.0f'}}} rounds: %{{y:.4f}}",
        measured="measured",
        column="{}: share",
        theory=theory,
        detail="This is the load metric X of Javani and Wang, counted between two consecutive rounds of the same "
        "client, all clients together. Intervals that are open when the run ends are not counted. A short run "
        "therefore has fewer long ones than the theory.",
        most=1.0,
    )
    if chart is not None and len(runs) == 1:  # bars of several settings would overlap, and bars of seeds hide the band
        bars = {key: value for key, value in chart.data[0].items() if key not in ("mode", "line")}
        chart.data[0] = bars | {"type": "bar", "marker": {"color": colour(0), "opacity": 0.75}}
        chart.layout["bargap"] = 0.15
    for row, start in zip(chart.rows if chart else (), first.tolist(), strict=True):
        row[0] = str(start) if width == 1 else f"{start}–{start + width - 1}"
    return chart
