"""Numbers in the figures against direct computations."""

import json
import sqlite3
from itertools import pairwise, product

import numpy as np
import pytest

from aoi_fl.protocol.records import Participation, RoundRecord
from aoi_fl.report import page
from aoi_fl.report.quantities import key_numbers
from aoi_fl.report.runs import RecordedRun
from aoi_fl.report.seeds import settings
from tests.report.recorded import MARKOV, ROUNDS, N, budgeted_run, charts_of, drawn, dropped_run, loaded, play


def test_learning_curves_are_the_ledgers_numbers(tmp_path):
    play(tmp_path / "a")
    charts = charts_of(tmp_path / "a")
    accuracy = charts["test-accuracy"].data[0]
    assert accuracy["x"] == list(range(ROUNDS + 1))
    assert accuracy["y"] == pytest.approx([10, *range(1, ROUNDS + 1)])
    assert charts["test-accuracy"].rows[1] == [1, pytest.approx(1.0)]
    loss = charts["test-loss"].data[0]
    assert loss["x"] == [1, *range(3, ROUNDS + 1)]  # no loss before the first round; NaN in the second
    assert loss["y"][1] == pytest.approx(1 / 3, rel=1e-5)


def test_heat_map_and_counts_show_who_took_part(tmp_path):
    chosen = play(tmp_path / "a")
    charts = charts_of(tmp_path / "a")
    cells = np.array(charts["participation-0"].data[0]["z"])
    assert cells.shape == (N, ROUNDS)
    for client, t in product(range(N), range(ROUNDS)):
        assert (cells[client, t] == 1.5) == (client in chosen[t])
    counts = [sum(client in who for who in chosen) for client in range(N)]
    assert charts["counts"].data[0]["y"] == sorted(counts, reverse=True)
    assert {(name, count) for _, name, count in charts["counts"].rows} == {(str(c), n) for c, n in enumerate(counts)}


def test_interval_histogram_and_its_theory(tmp_path):
    chosen = play(tmp_path / "a")
    times = [[t for t, who in enumerate(chosen) if client in who] for client in range(N)]
    waits = [b - a for mine in times for a, b in pairwise(mine)]
    measured, expected = charts_of(tmp_path / "a")["intervals"].data
    lengths = range(1, max(waits) + 1)
    assert measured["x"] == pytest.approx(list(lengths))
    assert measured["y"] == pytest.approx([waits.count(x) / len(waits) for x in lengths], rel=1e-5)
    p = [MARKOV.probabilities[min(age, 3)] for age in range(max(waits))]
    assert expected["y"] == pytest.approx([p[x - 1] * np.prod(1 - np.array(p[: x - 1])) for x in lengths], rel=1e-5)


def test_runs_overlay_in_their_own_colours(tmp_path):
    play(tmp_path / "a")
    play(tmp_path / "b", policy="random", rounds=10)
    charts = charts_of(tmp_path / "a", tmp_path / "b")
    assert [trace["line"]["color"] for trace in charts["intervals"].data] == ["--run0", "--run0", "--run1", "--run1"]
    assert [trace["line"]["dash"] for trace in charts["test-accuracy"].data] == ["solid", "dash"]
    assert "--run1" in [colour for _, colour in charts["participation-1"].data[0]["colorscale"]]
    assert [len(row) for row in charts["test-accuracy"].rows] == [3] * (ROUNDS + 1)
    assert charts["test-accuracy"].rows[-1][2] is None


def test_forced_and_dropped_are_told_apart_and_listed(tmp_path):
    folder = dropped_run(tmp_path / "d")
    chart = charts_of(folder)["participation-0"]
    assert chart.columns == ["round", "forced by the server", "dropped"]
    assert chart.rows == [[1, "0", "1, 2"], [2, "", ""]]
    assert chart.layout["yaxis"]["ticktext"] == ["berlin", "rome &amp; co", "oslo", "paris"]
    (run,) = loaded(folder)
    assert run.history.counts.tolist() == [1, 1, 0, 0]  # a refused update was work; a late one may not have been
    text = page.render([run])
    assert "<td>rome &amp; co</td><td>refused</td><td>layer &lt;w&gt; holds NaN</td>" in text
    assert "<td>oslo</td><td>late</td><td>no reply in 5 s</td>" in text


ESTIMATES = [[0.2, 0.3, 0.5], [0.2, 0.3, 0.5], [0.15, 0.25, 0.6], [0.1, 0.3, 0.6]]
ESTIMATED = {"trains": "all", "estimates": ESTIMATES, "sensitivities": "estimated"}


@pytest.mark.parametrize(
    ("run", "title", "shown"),
    [
        # By hand: ages after rounds 1 to 4 are 0 1 0 1, 1 0 0 1 and 1 2 3 4; φ is 0.5, 1 and 2.
        ({"ageing": "quadratic"}, "ageing cost, weighted like P2", f"{(0.5 * 2 + 1 * 2 + 2 * 30) / 12:.3g}"),
        ({}, "ageing cost, weighted like P2", None),  # the linear cost is P2
        (ESTIMATED, "P2", f"{(0.1 * 2 + 0.3 * 2 + 0.6 * 10) / 12:.3g}"),  # by the last estimates
        ({}, "pairs of clients that have trained together", "33.3 %"),  # two of the three clients, once
        ({"trains": "all"}, "pairs of clients that have trained together", None),  # who is refreshed trains no pair
    ],
)
def test_numbers_of_a_budget(tmp_path, run, title, shown):
    assert dict(key_numbers(settings(loaded(budgeted_run(tmp_path / "w", **run))))[1]).get(title) == shown


def test_estimated_sensitivities_are_named(tmp_path):
    for run, named in (({}, False), (ESTIMATED, True)):
        detail = charts_of(budgeted_run(tmp_path / str(named), **run))["objective"].detail
        assert ("estimates at the end" in detail) == named


def test_budget_ages_and_objective(tmp_path):
    charts = charts_of(budgeted_run(tmp_path / "w"))
    ages = np.array([[0, 1, 0, 1], [1, 0, 0, 1], [1, 2, 3, 4]])  # by hand: +1 a round, 0 where refreshed
    assert charts["ages-0"].data[0]["z"] == ages.tolist()
    assert charts["ages-0"].rows == [
        [t, pytest.approx(ages[:, t - 1].mean(), rel=1e-5), ages[:, t - 1].max()] for t in range(1, 5)
    ]
    assert charts["spending"].rows == [[t, s, 10] for t, s in enumerate([5, 5, 10, 0], 1)]
    running, floor = charts["objective"].data
    costs = np.array([0.5, 1.0, 2.0]) @ ages / 3
    assert running["y"] == pytest.approx(np.cumsum(costs) / np.arange(1, 5), rel=1e-5)
    assert all(low <= value for low, value in zip(floor["y"], running["y"], strict=True))
    assert floor["y"][-1] > 0
    # A refresh is what the policy hands out: training on old data is no part in the load.
    assert charts["counts"].data[0]["y"] == [2, 2, 0]
    assert charts["participation-0"].rows[0] == [1, "1, 2", "0"]
    assert "refreshed" in charts["participation-0"].note


def test_participations_of_a_round_not_yet_seen_are_left_out(tmp_path):
    play(tmp_path / "a")
    with sqlite3.connect(tmp_path / "a/ledger.sqlite") as db:
        db.execute("DELETE FROM rounds WHERE round = ?", (ROUNDS,))
    (run,) = loaded(tmp_path / "a")
    assert max(row["round"] for row in run.participations) == ROUNDS - 1


def test_axes_after_few_rounds_have_whole_ticks_and_labels(tmp_path):
    play(tmp_path / "a", rounds=3)
    charts = charts_of(tmp_path / "a")
    for name, axes in [("test-accuracy", "x"), ("test-loss", "x"), ("participation-0", "xy"), ("counts", "xy")]:
        assert all(charts[name].layout[f"{axis}axis"]["dtick"] == 1 for axis in axes), name


def large_run(label, each=2, n=3000):
    rounds = [vars(RoundRecord(t)) for t in range(1, 1201)]
    parts = [
        {"round": row["round"]} | vars(Participation((7 * row["round"] + j) % n, "", "trained", weight=0.5, age=1))
        for row in rounds
        for j in range(each)
    ]
    return RecordedRun(label, {"policy": {"clients": n}}, [], rounds, parts)


def test_large_runs_are_cut_to_what_a_screen_shows():
    run = large_run("large")
    charts = drawn(run)
    assert np.shape(charts["participation-0"].data[0]["z"]) == (250, 1000)
    assert "250 of the 3000 clients" in charts["participation-0"].note
    assert len(charts["counts"].rows) == 1000
    assert len(json.dumps([chart.data for chart in charts.values()])) < 3e6


def test_a_large_page_is_below_1_2_megabytes():
    assert len(page.render([large_run("large", 100)]).encode()) < 1.2e6
