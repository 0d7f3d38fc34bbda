"""The arena's table where runs do not reach a level: how many did, and a test that counts those that did not."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from aoi_fl.lab.experiments.studies.arena_page import (
    draw,
    tables_of,
    within_reach,
)

LEVELS = (0.9, 0.95)


def _rows(**reached):
    """Return a row for each run; of a policy the minutes until both levels, None for never, seed by seed."""
    cost = {"final": 0.9, "seconds_a_round": 9.0, "updates": 15.0, "worked": 3600.0, "never": 0.1, "interval": 5.0}
    return [
        {"seed": seed, "policy": policy.replace("_", "-"), "time": 60.0, "accuracy": 0.5, "variance": 1.0, "jain": 1.0}
        | {"wasted": 360.0 * seed}
        | cost
        | {key: minutes if minutes is None else 60 * minutes for key in ("reached_lower", "reached_upper")}
        for policy, times in reached.items()
        for seed, minutes in enumerate(times, 1)
    ]


def _cells(rows):
    """Return each policy's minutes to the lower level, those later than random, and the minutes to the upper."""
    return {row[0]: list(row[1:4]) for row in tables_of(rows, LEVELS, 100)[0].rows}


def test_censored_runs_enter_the_test_and_not_the_mean():
    found = _cells(_rows(random=[30.0, None, 31, 32, 33, 34], oort=[5.0, 6, 7, 8, None, 9], f3ast=[None] * 6))
    assert found["random"] == ["5 of 6, median 32.5", "–", "5 of 6, median 32.5"]  # of six, the sixth infinite
    # Of the pairs' ranks, 5, 9.5, 4, 4, -2.5 and 5 apart: four of 2⁶ signs give a sum of 25 or more.
    assert found["oort"] == [
        "5 of 6, median 7.5",
        "not reached by all seeds, p = 0.062",
        "5 of 6, median 7.5, p = 0.062",
    ]
    assert found["f3ast"] == [
        "0 of 6",
        "not reached by all seeds, p = 0.062",
        "0 of 6, p = 0.062",
    ]  # 2/2⁵: one pair is tied


def test_where_all_get_there_their_means_stand():
    found = _cells(_rows(random=[30.0, 31.0, 32.0], oort=[20.0, 21.0, 22.0], f3ast=[None, 21.0, 22.0]))
    assert found["oort"] == ["21.0 [18.5, 23.5]", "-10.0 [-10.0, -10.0], p = 0.25", "21.0 [18.5, 23.5], p = 0.25"]
    assert found["f3ast"][1].startswith("not reached by all seeds, p = ")
    assert _cells(_rows(random=[None], oort=[9.0]))["oort"] == [
        "9.0",
        "not reached by all seeds",
        "9.0",
    ]  # of one seed no test


def test_the_picture_has_each_policys_mean_in_sight_and_names_it():
    rows = _rows(random=[5.0, 6.0, 7.0], oort=[4.0, 5.0, 6.5], refl=[5.5, 6.5, 7.0], f3ast=[6.0, 9.0, 65.0])
    figure = Figure()
    FigureCanvasAgg(figure)
    draw(rows, LEVELS, figure)
    curves, later, _, work = figure.get_axes()
    assert [label.get_text() for label in later.get_yticklabels()] == ["random", "oort", "refl", "f3ast"]
    middles = [found[0].get_xdata()[0] for found in later.containers]
    assert middles == pytest.approx([-5 / 6, 1 / 3, 62 / 3])
    low, high = later.get_xlim()
    assert low < min(middles) and max(middles) < high < 65 - 7  # the last one's interval goes on
    arrows = [(*line.get_xdata(), *line.get_ydata(), line.get_marker()) for line in later.get_lines()]
    assert [arrow for arrow in arrows if "arrow" in arrow[-1]] == [
        (low, 3, r"$\leftarrow$"),
        (high, 3, r"$\rightarrow$"),
    ]
    assert len(curves.get_lines()) == 4 + len(LEVELS) and len(work.patches) == 2 * 4


def test_work_is_told_beside_what_there_was_to_reach():
    rows = _rows(random=[5.0, 6.0, 7.0], oort=[5.0, 6.0, 7.0])
    (_, work) = tables_of(rows, LEVELS, 100)
    assert work.rows[0][3:6] == ["20.0 (10.0 to 30.0)", "–", "1.0 [1.0, 1.0] (5.0; 0.20)"]
    unheard = [row | {"interval": None, "variance": None} for row in rows]
    assert tables_of(unheard, LEVELS, 100)[1].rows[0][5] == "– (–; –)"
    assert within_reach(rows, 20) == ""
    # 90 of 100 were reached; of the 95 that were ever there by seed 1 all but 5. One run tells it for all of its seed.
    told = [
        row | {"present": 95, "reach": 12.5} if row["policy"] == "oort" and row["seed"] == 1 else row for row in rows
    ]
    found = tables_of(told, LEVELS, 100)[1].rows
    assert [row[4] for row in found] == ["5.3 (one seed)", "5.3 (one seed)"]
    assert [row[6] for row in found] == ["1.05 (one seed)", "1.05 (one seed)"]  # (Σx)²/(95·Σx²), given as over 100
    assert "95 of the devices (95 to 95)" in within_reach(told, 20)
    assert "12.5 of the 20 clients a round" in within_reach(told, 20)
