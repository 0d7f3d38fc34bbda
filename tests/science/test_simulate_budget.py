"""``aoi simulate`` with budgeted policies: a file of four clients, followed by hand."""

import json
from math import sqrt

import pytest

CLIENTS = """name,size,payment,sensitivity,age
ann,100,7,0.2,2
bob,200,3,0.5,2
cat,300,12,0.2,0
dan,400,4,0.5,2
"""

# Budget 10, so that cat (12) can never be chosen, and ann and bob (7 + 3) cost exactly the budget. Each line: the
# round, the ages before its decision, the indices, then the clients in descending order of the index (ties: the lower
# number first) with what would be spent with them; "no" where that is too much. Indices:
#   wics           (Δ+1)(Δ+2)·10·φ/(2p), that is (Δ+1)(Δ+2) times 1/7, 5/6, 1/12, 5/8
#   abs            Δφ/p, that is Δ times 1/35, 1/6, 1/60, 1/8
#   maxpack        Δ
#   random-budget  the draws of Philox with the digest of "5/<round>/random-budget" as its key (seed 5)
# The ages that follow are 0 for those chosen, one more for the others.
SELECTIONS = {
    # 1: ages 2 2 0 2, index 1.71 10 0.167 7.5 → 1: 3, 3: 7, 0: 14 no, 2: 19 no
    # 2: ages 3 0 1 0, index 2.86 1.67 0.5 1.25 → 0: 7, 1: 10, 3: 14 no, 2: 22 no
    # 3: ages 0 0 2 1, index 0.286 1.67 1 3.75 → 3: 4, 1: 7, 2: 19 no, 0: 14 no
    # 4: ages 1 0 3 0, index 0.857 1.67 1.67 1.25 → 1: 3, 2: 15 no, 3: 7, 0: 14 no
    "wics": [[1, 3], [0, 1], [1, 3], [1, 3]],
    # 1: ages 2 2 0 2, index 0.0571 0.333 0 0.25 → 1: 3, 3: 7, 0: 14 no, 2: 19 no
    # 2: ages 3 0 1 0, index 0.0857 0 0.0167 0 → 0: 7, 2: 19 no, 1: 10, 3: 14 no
    # 3: ages 0 0 2 1, index 0 0 0.0333 0.125 → 3: 4, 2: 16 no, 0: 11 no, 1: 7
    # 4: ages 1 0 3 0, index 0.0286 0 0.05 0 → 2: 12 no, 0: 7, 1: 10, 3: 14 no
    "abs": [[1, 3], [0, 1], [1, 3], [0, 1]],
    # 1: ages 2 2 0 2, index 2 2 0 2 → 0: 7, 1: 10, 3: 14 no, 2: 22 no
    # 2: ages 0 0 1 3, index 0 0 1 3 → 3: 4, 2: 16 no, 0: 11 no, 1: 7
    # 3: ages 1 0 2 0, index 1 0 2 0 → 2: 12 no, 0: 7, 1: 10, 3: 14 no
    # 4: ages 0 0 3 1, index 0 0 3 1 → 2: 12 no, 3: 4, 0: 11 no, 1: 7
    "maxpack": [[0, 1], [1, 3], [0, 1], [1, 3]],
    # 1: ages 2 2 0 2, index 0.172 0.37 0.0486 0.327 → 1: 3, 3: 7, 0: 14 no, 2: 19 no
    # 2: ages 3 0 1 0, index 0.0089 0.0241 0.371 0.281 → 2: 12 no, 3: 4, 1: 7, 0: 14 no
    # 3: ages 4 0 2 0, index 0.119 0.198 0.589 0.442 → 2: 12 no, 3: 4, 1: 7, 0: 14 no
    # 4: ages 5 0 3 0, index 0.197 0.706 0.827 0.00804 → 2: 12 no, 1: 3, 0: 10, 3: 14 no
    "random-budget": [[1, 3], [1, 3], [1, 3], [0, 1]],
}


LINE = "simulate --budget 10 --clients-file clients.csv --rounds 4 --seed 5 --trace --policy"


@pytest.fixture(autouse=True)
def clients(tmp_path):
    (tmp_path / "clients.csv").write_text(CLIENTS)


@pytest.mark.parametrize("policy", SELECTIONS)
def test_selections_are_those_of_the_calculation_by_hand(aoi, policy):
    status, out, err = aoi(f"{LINE} {policy} --json")
    assert status == 0
    assert json.loads(out)["selections"] == SELECTIONS[policy]
    assert err == "aoi: client cat can never be chosen: payment 12 > budget 10\n"


def test_measures_are_those_of_the_calculation_by_hand(told):
    shown = told(f"{LINE} wics")
    # Ages after the refreshes of rounds 1 to 4: 3 0 1 0, 0 0 2 1, 1 0 3 0, 2 0 4 0; their means: 1.5 0 2.5 0.25.
    # P2: (0.2·1.5 + 0.2·2.5 + 0.5·0.25)/4 = 0.925/4. By size: (0.1·1.5 + 0.3·2.5 + 0.4·0.25)/4 = 1/4.
    # Spent: 3+4, 7+3, 4+3, 3+4. Floor: [(√1.4 + √1.5 + √2.4 + √2)²/10 − 1.4]/8.
    assert shown["p2"] == pytest.approx(0.23125)
    assert shown["weighted_age"] == pytest.approx(0.25)
    assert shown["spent"] == {"mean": 7.75, "max": 10.0}
    assert shown["floor"] == pytest.approx(((sqrt(1.4) + sqrt(1.5) + sqrt(2.4) + sqrt(2)) ** 2 / 10 - 1.4) / 8)


def test_a_total_budget_ends_the_simulation(aoi, told):
    line = f"{LINE} wics --total-budget 19"
    shown = told(line)  # 7 and then, of the 10 by hand, 10: 2 are left, and the smallest payment is 3
    assert (shown["selections"], shown["rounds"]) == (SELECTIONS["wics"][:2], 2)
    assert shown["spent"] == {"mean": 8.5, "max": 10.0}
    assert "2 rounds, seed 5; then the total budget of 19 is spent" in " ".join(aoi(line)[1].split())


def test_a_client_that_comes_too_late_is_not_paid(told):
    shown = told(f"{LINE} random-budget --clock always --deadline 5")
    assert shown["selections"] == [[], [], [], [0]]
    assert shown["spent"] == {"mean": 7 / 4, "max": 7.0}  # ann's payment, in one of four rounds


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--policy random --budget 9 --total-budget 40", "budget is 9, but must be left out: policy random"),
        ("--policy wics --budget 2 --clients-file clients.csv", "at least the smallest payment, 3"),
        (
            "--policy wics --budget 40 --clients 9 --clients-file clients.csv",
            "num-clients is '9', but must be left out",
        ),
    ],
)
def test_what_cannot_be_played_is_refused_with_a_remedy(refusal, options, message):
    assert message in refusal(f"simulate --rounds 5 --json {options}")
