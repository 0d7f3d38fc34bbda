"""The figures of a report: load, participation, learning, time or money.

``figures`` is a pure function of ledgers' values; :mod:`aoi_fl.report.page` makes a page of its charts.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aoi_fl.report import balance, budget, participation, simulated
from aoi_fl.report.chart import Chart, curve, layout, numbers, rows, whole
from aoi_fl.report.judging import LEAST_SEEDS
from aoi_fl.report.measure import JUDGES, LOSSES, LedgerMeasure, more
from aoi_fl.report.runs import Run
from aoi_fl.report.seeds import Curve, Setting, settings


def figures(runs: Sequence[Run]) -> list[Chart]:
    """Return the charts of one or more runs in reading order, without empty ones.

    Line charts overlay the settings, each as the mean of its seeds. A heat map shows one seed of a setting. The setting
    at position i has the colour ``--run{i % 8}`` everywhere. Overlays have no legend, because the page lists the
    settings with their colours.
    """
    overlaid = settings(runs)
    several = len(overlaid) > 1
    each = [(i, setting, several) for i, setting in enumerate(overlaid)]
    load = [participation.counts(overlaid), balance.intervals(overlaid), balance.deviation(overlaid)]
    money = [
        budget.spending(overlaid),
        budget.objective(overlaid),
        *(budget.ages(*one) for one in each),
        *(budget.sensitivities(*one) for one in each),
    ]
    columns = [name for run in runs for row in run.rounds[-1:] for name in row]
    learned = [learning(overlaid, measure) for measure in (*JUDGES, *LOSSES, *more(columns)[:_MOST_METRICS])]
    timed = [simulated.learning(overlaid, measure) for measure in JUDGES]
    charts = [*load, *(participation.heat_map(*one) for one in each), *learned, *timed]
    charts = [*money, *charts] if all(setting.first.budgeted for setting in overlaid) else [*charts, *money]
    shown = [chart for chart in charts if chart is not None]
    if max(len(setting.runs) for setting in overlaid) < LEAST_SEEDS:
        return shown
    return [replace(chart, detail=f"{chart.detail} {_BAND}".strip()) if chart.overlay else chart for chart in shown]


_MOST_METRICS = 24  # charts of an app's own metrics; the ledger has all
_BAND = "The line is the mean of the seeds. The band is its 95 % interval."


_SOURCES = {
    "test": "Of the global model on the server's test data after each round.",
    "client": "Of the global model on the clients' own data after each round, the mean weighted by examples.",
    "train": "As clients report it from their training, the mean weighted by examples.",
}


def learning(overlaid: Sequence[Setting], measure: LedgerMeasure) -> Chart | None:
    """Return the model's measure against rounds; round 0 is the initial model."""
    data: list[dict[str, Any]] = []
    table: dict[str, dict[Any, Any]] = {}
    for i, setting in enumerate(overlaid):
        curves = [known for run in setting.runs if (known := _known(run, measure))]
        if curves:
            data += curve(i, setting.label, curves, f"round %{{x}}: %{{y:.4g}}{measure.unit}", most=measure.most)
            table |= numbers(f"{measure.axis}, {setting.label}", curves, most=measure.most)
    if not data:
        return None
    listed = rows(list(table.values()))
    return Chart(
        measure.column.replace("_", "-"),
        measure.title,
        _SOURCES[measure.source],
        data,
        layout("round", measure.axis, x=whole([x for x, *_ in listed]), showlegend=False),
        ["round", *table],
        listed,
        detail="Round 0 is the model before the first round." if measure.source == "test" else "",
    )


def _known(run: Run, measure: LedgerMeasure) -> Curve | None:
    """Return the rounds in which a run was evaluated, and the values."""
    start = run.about.get(f"initial_{measure.field}") if measure.source == "test" else None
    x = np.concatenate([[0], run.numbers])
    y = measure.scaled(np.concatenate([[np.nan if start is None else start], run.column(measure.column)]))
    known = np.isfinite(y)
    return (x[known], y[known]) if run.rounds and known.any() else None
