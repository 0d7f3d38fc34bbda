"""P2, and the floors under it against exact optima by average-cost dynamic programming over all clients' ages."""

from itertools import product

import numpy as np
import pytest

from aoi_fl.lab.experiments.oracles.optimum import draw_instance, exact_optimum
from aoi_fl.lab.experiments.oracles.packing import packing_bound, packings
from aoi_fl.science.objective import lagrangian_floor, p2, weighted_average_age


def test_objectives_average_over_clients():
    ages = np.array([[0, 1, 2], [1, 0, 3]])  # after the refreshes of rounds 1 and 2
    assert p2(ages.mean(axis=0), np.array([1.0, 2.0, 0.5])) == pytest.approx((0.5 + 1.0 + 1.25) / 3)
    assert weighted_average_age(ages.mean(axis=0), np.array([10, 20, 70])) == pytest.approx((0.05 + 0.1 + 1.75) / 3)


# --- floors and the exact optimum, N = 3 ---


@pytest.fixture(scope="module")
def solved():
    return [(case, exact_optimum(case)) for case in (draw_instance(seed) for seed in range(1, 401))]


def test_floors_lie_below_the_optimum_and_in_order(solved):
    slack = []
    for case, optimum in solved[:120]:
        loose = lagrangian_floor(case.payments, case.sensitivities, case.budget)
        tight = packing_bound(case.payments, case.sensitivities, case.budget)
        assert loose <= tight + 1e-9
        assert tight <= optimum + 1e-9
        slack.append((loose / optimum, tight / optimum))
    print("mean and least of floor / optimum, Lagrangian and packing:", np.mean(slack, axis=0), np.min(slack, axis=0))
    assert np.mean(slack, axis=0)[1] > 0.99


def test_the_packing_bound_follows_a_very_small_weight():
    # Two clients, one a round. Refreshing the light one once in X rounds costs 1·(1/X) + φ(X−1)/2 a round.
    for sensitivity in (1e-1, 1e-3, 1e-5):
        spells = np.arange(2, 4000)
        best = (1 / spells + sensitivity * (spells - 1) / 2).min() / 2
        assert packing_bound(np.array([5.0, 5.0]), np.array([1.0, sensitivity]), 5.0) == pytest.approx(best, rel=1e-7)


def test_the_floor_of_a_finite_run_tends_to_the_long_run():
    # Two clients, one a round, T = 7: all 2^7 schedules.
    payments, sensitivities = np.array([5.0, 7.0]), np.array([0.9, 0.4])
    least = np.inf
    for schedule in product([0, 1], repeat=7):
        ages, total = np.zeros(2), np.zeros(2)
        for client in schedule:
            ages += 1
            ages[client] = 0
            total += ages
        least = min(least, p2(total / 7, sensitivities))
    floor = lagrangian_floor(payments, sensitivities, 7.0, rounds=7)
    assert 0 < floor <= least
    assert lagrangian_floor(payments, sensitivities, 7.0, rounds=10**9) == pytest.approx(
        lagrangian_floor(payments, sensitivities, 7.0), rel=1e-6
    )
    assert lagrangian_floor(payments, sensitivities, 1000.0) == 0.0


def test_packings_are_the_maximal_ones_by_decimal_arithmetic():
    found = {tuple(np.flatnonzero(row)) for row in packings(np.array([0.1, 0.2, 0.3]), 0.3)}
    assert found == {(0, 1), (2,)}
