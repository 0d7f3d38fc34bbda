"""The chart of learning in simulated time."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aoi_fl.report.chart import Chart, curve, layout, numbers, rows
from aoi_fl.report.measure import LedgerMeasure
from aoi_fl.report.seeds import Setting

_POINTS = 60  # of a curve
_HOUR = 3600.0


def learning(overlaid: Sequence[Setting], measure: LedgerMeasure) -> Chart | None:
    """Return the model's measure against simulated hours; None without simulated time."""
    ends = [run.column("clock") for setting in overlaid for run in setting.runs if run.rounds]
    last = max((float(np.nanmax(end)) for end in ends if np.isfinite(end).any()), default=0.0)
    if not last:
        return None
    marks = np.linspace(0, last, _POINTS + 1)[1:]
    unit, name, short = (_HOUR, "hours", "h") if last >= 2 * _HOUR else (_HOUR / 60, "minutes", "min")
    data: list[dict[str, Any]] = []
    table: dict[str, dict[Any, Any]] = {}
    for i, setting in enumerate(overlaid):
        curves = []
        for run in setting.runs:
            clock, value = run.column("clock"), run.column(measure.column)
            known = np.isfinite(clock) & np.isfinite(value)
            begun = marks >= clock[known][0] if known.any() else np.zeros(len(marks), np.bool_)
            if begun.any():
                latest = np.searchsorted(clock[known], marks[begun], side="right") - 1
                curves.append((np.round(marks[begun] / unit, 4), measure.scaled(value)[known][latest]))
        if curves:
            data += curve(i, setting.label, curves, f"%{{x:.2f}} {short}: %{{y:.4g}}{measure.unit}", most=measure.most)
            table |= numbers(f"{measure.axis}, {setting.label}", curves, most=measure.most)
    if not data:
        return None
    return Chart(
        f"time-{measure.field}" if measure.source == "test" else f"time-{measure.source}-{measure.field}",
        f"{measure.title} in simulated time",
        "Of the global model on the server's test data, after the last complete round.",
        data,
        layout(f"simulated {name}", measure.axis, showlegend=False),
        [name, *table],
        rows(list(table.values())),
    )
