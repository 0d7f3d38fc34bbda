"""The headline of a page: its yardstick, and one row a policy."""

from dataclasses import replace

import numpy as np
import pytest

from aoi_fl.protocol.records import RoundRecord
from aoi_fl.report import seeds
from aoi_fl.report.headline import headline, policies, random_range
from tests.report.recorded import budgeted_run, charts_of, clients, loaded, record, trained


def play(folder, policy, seed, end, members):
    """Record ten clients; ``members`` are the clients of each round."""
    rounds = [
        RoundRecord(t, clock=60.0 * t, test_accuracy=end, participations=trained(chosen))
        for t, chosen in enumerate(members, 1)
    ]
    config = {"policy": policy, "seed": seed, "num-clients": 10}
    return loaded(record(folder, rounds, clients(10), config=config))[0]


EVEN = [[2 * t % 10, (2 * t + 1) % 10] for t in range(20)]  # four times each
SKEWED = [[0, 1 + t % 7] for t in range(20)]  # client 0 always, 8 and 9 never


def both(home, ends, rival):
    runs = [play(home / f"m{i}", "markov", i, end, EVEN) for i, end in enumerate(ends)]
    runs += [play(home / f"r{i}", "random", i, end, SKEWED) for i, end in enumerate(rival)]
    untimed = [replace(run, rounds=[{**row, "clock": None} for row in run.rounds]) for run in runs]
    return seeds.settings(untimed)


@pytest.mark.parametrize(
    ("ends", "rival", "verdict"),
    [
        ([0.900, 0.910, 0.920], [0.901, 0.911, 0.921], "Same accuracy;"),  # by 0.1 points, of every seed
        ([0.90, 0.91, 0.92], [0.88, 0.89, 0.90], "Accuracy 2 ± "),
        ([0.90, 0.95, 0.92], [0.95, 0.90, 0.92], "No clear difference in accuracy"),
    ],
)
def test_a_comparison_has_a_verdict_and_a_yardstick(tmp_path, ends, rival, verdict):
    text = headline(both(tmp_path, ends, rival))
    assert text.startswith(verdict), text
    assert text.endswith("under markov clients trained 4 times, under random 0–20 times.")


def test_a_difference_of_few_seeds_has_no_verdict(tmp_path):
    text = headline(both(tmp_path, [0.9, 0.9], [0.8, 0.9]))
    assert text.startswith("Test accuracy 90.0 % with markov and 85.0 % with random;")


def test_seeds_are_folded_into_one_row_a_policy(tmp_path):
    columns, rows = policies(both(tmp_path, [0.90, 0.91, 0.92], [0.88, 0.89, 0.90]))
    assert [row[0] for row in rows] == ["markov", "random"] and columns[0] == "policy"
    first = dict(zip(columns, rows[0], strict=True))
    assert first["a client took part"] == "4 times" and first["seeds"] == "3"
    assert first["test accuracy at the end"] == f"91.0 ± {4.302653 / 3**0.5:.2g} %"


def test_a_clocked_page_leads_with_devices_that_never_took_part(tmp_path):
    found = seeds.settings([play(tmp_path / "c", "random", 1, 0.9, SKEWED)])
    assert headline(found) == "2 of 10 devices never took part. Test accuracy 90.0 % after 20 min 00 s."
    other = seeds.settings([play(tmp_path / "d", "systematic", 1, 0.8, SKEWED)])
    assert headline([*found, *other]) == (
        f"2 of 10 devices never took part under {found[0].name}; 2 of 10 under {other[0].name}. "
        "Test accuracy 90.0 %; 80.0 % after 20 min 00 s."
    )
    columns, rows = policies(found)
    assert columns.index("never took part") < columns.index("a client took part") and "2 of 10" in rows[0]


def test_a_budget_page_leads_with_money_and_age(tmp_path):
    found = seeds.settings(loaded(folder := budgeted_run(tmp_path / "w")))
    assert headline(found).startswith(f"Spent 5 of 10 a round; data are {14 / 12:.3g} rounds old on average.")
    columns, rows = policies(found)
    assert columns[1:4] == ["policy", "spent a round", "budget a round"] and rows[0][2:4] == ["5", "10"]
    cost, floor = (trace["y"][-1] for trace in charts_of(folder)["objective"].data)
    assert rows[0][5] == f"{100 * (cost / floor - 1):.1f} %"


def test_policies_are_shown_unless_all_names_hold_them(tmp_path):
    even, random = (play(tmp_path / n, p, 1, 0.9, SKEWED) for n, p in (("even", "systematic"), ("random", "random")))
    columns, rows = policies(seeds.settings([even, random]))
    assert columns[1] == "policy" and [row[:2] for row in rows] == [["even", "systematic"], ["random", "random"]]
    columns, _ = policies(seeds.settings([random]))
    assert "policy" not in columns


def test_the_range_of_random_selection_is_its_median():
    rng = np.random.default_rng(1)
    draws = np.array([[rng.permuted(np.arange(20) < 4) for _ in range(30)] for _ in range(400)]).sum(axis=1)
    least, most = random_range(20, 4, 30)
    assert (least, most) == pytest.approx((np.median(draws.min(axis=1)), np.median(draws.max(axis=1))), abs=1)
