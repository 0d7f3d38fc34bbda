"""The forest plots that show verdicts of seeds."""

import re

import pytest

from aoi_fl.report.judging import Interval, Pair, RunFinding
from aoi_fl.report.template import fill


def test_forest_plots_of_a_column_share_one_scale():
    found = [
        RunFinding("accuracy", Interval(0.1, 0.1, 3), 0.05, "not distinguishable", points=True),
        RunFinding("accuracy", Interval(-0.3, 0.1, 3), 0.05, "worse"),
        RunFinding("accuracy", None, 0.05, "no conclusion", "<censored>"),
    ]
    shown = fill("conclusions.html", pairs=[Pair("a", f"b{i}", (1, 2, 3), (one,)) for i, one in enumerate(found)])
    assert re.findall('<th scope="col">(.*?)</th>', shown) == ["setting", "against", "seeds", "accuracy"]
    cells = re.findall('<td data-title="accuracy">(.*?)</td>', shown, re.DOTALL)
    drawn = [[float(x) for x in re.findall(r"-?\d+\.\d", cell.split("</svg>")[0])] for cell in cells]
    unit = 56 / 0.4  # the longest reach is 0.4, of the second
    assert drawn[0] == pytest.approx([-0.05 * unit, 0.1 * unit, 0.0, 0.2 * unit, 0.1 * unit, 3.5], abs=0.06)
    assert drawn[1] == pytest.approx([-0.05 * unit, 0.1 * unit, -0.4 * unit, -0.2 * unit, -0.3 * unit, 3.5], abs=0.06)
    assert "svg" not in cells[2] and "&lt;censored&gt;" in cells[2]
