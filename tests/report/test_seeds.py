"""Seeds of one setting become one line with its interval; everything else stays apart."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from aoi_fl.protocol.records import RoundRecord
from aoi_fl.report import page
from aoi_fl.report.drawing import draw
from aoi_fl.report.headline import policies
from aoi_fl.report.quantities import key_numbers
from aoi_fl.report.runs import RecordedRun, load_all
from aoi_fl.report.seeds import settings
from aoi_fl.report.summary import sentences
from tests.report.recorded import charts_of, clients, record, trained

ROUNDS = 6
ENDS = {1: 0.90, 2: 0.94, 3: 0.99}  # whose interval at the end would go beyond 100 %


def play(folder, seed, policy="random", rounds=ROUNDS):
    """Record a run of four clients, two a round, whose accuracy climbs to an end that the seed decides."""
    config = {"policy": policy, "num-clients": 4, "run-name": folder.name} | ({} if seed is None else {"seed": seed})
    draw, end = np.random.default_rng(seed), ENDS.get(seed or 1, 0.5)
    members = [draw.choice(4, 2, replace=False).tolist() for _ in range(rounds)]
    played = [
        RoundRecord(t, test_accuracy=end * t / rounds, participations=trained(who)) for t, who in enumerate(members, 1)
    ]
    return str(record(folder, played, clients(4), config=config))


@pytest.fixture
def seeds(tmp_path):
    """The names of three runs of one setting."""
    return [play(tmp_path / f"r{seed}", seed) for seed in ENDS]


def test_seeds_of_one_setting_are_its_mean_and_interval(seeds, tmp_path):
    names = [*seeds, play(tmp_path / "other", 1, "wics")]
    assert [(s.label, len(s.runs)) for s in settings(load_all(names))] == [("random (3 seeds)", 3), ("other", 1)]
    chart = charts_of(*names)["test-accuracy"]
    band, mean, single = chart.data
    values = np.array([[100 * end * t / ROUNDS for t in range(1, ROUNDS + 1)] for end in ENDS.values()])
    low, high = stats.t.interval(0.95, 2, values.mean(axis=0), stats.sem(values, axis=0))
    high = np.minimum(high, 100)
    assert mean["x"] == list(range(1, ROUNDS + 1))
    assert mean["y"] == pytest.approx(values.mean(axis=0), rel=1e-5)
    assert band["y"] == pytest.approx([*high, *low[::-1]], rel=1e-5)
    assert (mean["line"]["color"], single["line"]["color"]) == ("--run0", "--run1")
    assert chart.rows[-1] == pytest.approx([ROUNDS, values[:, -1].mean(), low[-1], high[-1], 90], rel=1e-5)
    assert "95 % interval" in chart.detail


def test_seeds_of_one_setting_share_lines_and_a_heat_map(seeds):
    charts = charts_of(*seeds)
    assert [name for name in charts if name.startswith("participation")] == ["participation-0"]
    assert "Seed 1." in charts["participation-0"].note
    measured = [trace for trace in charts["intervals"].data if trace["line"].get("dash") == "solid"]
    assert len(measured) == 1 and sum("fill" in trace for trace in charts["intervals"].data) == 1
    counts = np.array([sorted(run.history.counts, reverse=True) for run in load_all(seeds)])
    (line,) = [trace for trace in charts["counts"].data if "fill" not in trace]
    assert line["y"] == pytest.approx(counts.mean(axis=0), rel=1e-5)


def test_two_seeds_have_no_band_and_no_interval(seeds):
    two = settings(load_all(seeds[:2]))
    assert not any("fill" in trace for chart in charts_of(*seeds[:2]).values() for trace in chart.data)
    assert not any("[" in line for line in sentences(two))
    columns, rows = policies(two)
    assert "±" not in dict(zip(columns, rows[0], strict=True))["test accuracy at the end"]


def test_how_much_one_seed_says(seeds):
    runs = load_all(seeds)
    (said,) = sentences(settings(runs))
    ends = 100 * np.array(list(ENDS.values()))
    alone = stats.t.ppf(0.975, 2) * ends.std(ddof=1) * np.sqrt(1 + 1 / 3)
    half = stats.t.ppf(0.975, 2) * ends.std(ddof=1) / np.sqrt(3)
    assert f"from 90 to 99 %, mean {ends.mean():.4g} [{ends.mean() - half:.4g}, 100]" in said
    assert f"±{alone:.2g} %" in said
    text = page.render(runs)
    assert "How sure is this?" in text and said.replace("'", "&#39;") in text
    assert sentences(settings(runs[:1])) == []
    other = RecordedRun(
        "other", runs[0].about | {"config": runs[0].config | {"policy": "random"}}, [], runs[0].rounds, []
    )
    of_three, of_one = sentences(settings([*runs, other]))
    assert of_three == said and of_one.startswith("One seed only: other.")
    (both,) = sentences(settings([runs[0], other]))
    assert both.startswith(f"One seed only: {runs[0].label}, other.")


def test_all_numbers_have_a_column_a_setting(seeds, tmp_path):
    columns, rows = key_numbers(settings(load_all([*seeds, play(tmp_path / "other", 1, "b")])))
    assert columns == ["", "random (3 seeds)", "other"]
    shown = {name: cells for name, *cells in rows}
    assert shown["test accuracy at the end"] == ["94.3 % (90.0 % to 99.0 %)", "90.0 %"]
    assert shown["rounds recorded"] == ["6", "6"] and shown["status"] == ["completed", "completed"]
    assert shown["round of the best test accuracy"][1] == "6"


def test_a_sweep_is_drawn_against_its_values(tmp_path):
    names = []
    for rate, seed in product((0.1, 0.5, 2.0), ENDS):
        row = RoundRecord(1, test_accuracy=ENDS[seed] * rate / 2, participations=trained([0]))
        config = {"policy": "random", "learning-rate": rate, "seed": seed}
        names.append(str(record(tmp_path / f"{rate}-{seed}", [row], clients(4), config=config)))
    sweep = charts_of(*names)["sweep"]
    mean = 100 * np.mean([*ENDS.values()])
    assert [row[0] for row in sweep.rows] == [0.1, 0.5, 2.0]
    assert [row[2] for row in sweep.rows] == pytest.approx([mean * rate / 2 for rate in (0.1, 0.5, 2)], 1e-5)
    assert not sweep.layout["showlegend"] and sweep.layout["xaxis"]["type"] == "log"
    bars, points = sweep.data[::2], sweep.data[1::2]
    assert [trace["x"] for trace in points] == [[0.1], [0.5], [2.0]]
    for bar, point in zip(bars, points, strict=True):
        assert min(bar["y"]) < point["y"][0] < max(bar["y"])
    assert draw(sweep, 3.4, "pdf").startswith(b"%PDF")
    assert "sweep" not in charts_of(*names[:6])
