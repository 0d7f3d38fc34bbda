"""The figures of a report: how well the runs learned, who took part, and how evenly.

``figures`` is a pure function of what ledgers hold; :mod:`aoi_fl.report.page` makes a page of what it returns.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aoi_fl.report import balance, budget, participation, sensitivity, simulated
from aoi_fl.report.chart import Chart, curve, layout, numbers, rows, whole
from aoi_fl.report.measure import JUDGES, LOSS, Measure
from aoi_fl.report.runs import Run
from aoi_fl.report.seeds import Curve, Setting, settings


def figures(runs: Sequence[Run]) -> list[Chart]:
    """Return the charts of one or more runs, in reading order; those that have nothing to show are left out.

    Line charts overlay the settings, each the mean of its seeds; what fills a chart (heat maps) comes once for each
    run, one below the other. The setting at position i has the colour ``--run{i % 8}`` everywhere; an overlay of
    several has no legend of its own, a list of the settings and their colours beside it is left to the page.
    """
    overlaid, several = settings(runs), len(runs) > 1
    coloured = [(i, run) for i, setting in enumerate(overlaid) for run in setting.runs]
    charts = [
        *(learning(overlaid, measure) for measure in JUDGES),
        learning(overlaid, LOSS),
        *(simulated.learning(overlaid, measure) for measure in JUDGES),
        *(participation.heat_map(i, run, several, number) for number, (i, run) in enumerate(coloured)),
        *(budget.ages(run, several, number) for number, (_, run) in enumerate(coloured)),
        *(sensitivity.sensitivities(i, run, several, number) for number, (i, run) in enumerate(coloured)),
        balance.intervals(overlaid),
        balance.deviation(overlaid),
        participation.counts(overlaid),
        budget.spending(overlaid),
        budget.objective(overlaid),
    ]
    shown = [chart for chart in charts if chart is not None]
    if len(overlaid) == len(runs):
        return shown
    return [replace(chart, note=chart.note + _BAND) if chart.overlay else chart for chart in shown]


_BAND = " Of several seeds the line is the mean, the band its 95 % interval."


def learning(overlaid: Sequence[Setting], measure: Measure) -> Chart | None:
    """Return what the model has learned against rounds, round 0 being the model before the first."""
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
        f"test-{measure.field}",
        measure.title,
        "Of the global model on the server's test data after each round; round 0 is the model before the first.",
        data,
        layout("round", measure.axis, x=whole([x for x, *_ in listed]), showlegend=False),
        ["round", *table],
        listed,
    )


def _known(run: Run, measure: Measure) -> Curve | None:
    """Return the rounds in which a run was evaluated, and what came of it."""
    start = run.about.get(f"initial_{measure.field}")
    x = np.concatenate([[0], run.numbers])
    y = measure.scaled(np.concatenate([[np.nan if start is None else start], run.column(f"test_{measure.field}")]))
    known = np.isfinite(y)
    return (x[known], y[known]) if run.rounds and known.any() else None
