"""P2, the size-weighted age, and the floor under P2 against every schedule of two clients."""

from itertools import product

import numpy as np
import pytest

from aoi_fl.science.objective import lagrangian_floor, p2, weighted_average_age


def test_objectives_average_over_clients():
    ages = np.array([[0, 1, 2], [1, 0, 3]])  # after the refreshes of rounds 1 and 2
    assert p2(ages.mean(axis=0), np.array([1.0, 2.0, 0.5])) == pytest.approx((0.5 + 1.0 + 1.25) / 3)
    assert weighted_average_age(ages.mean(axis=0), np.array([10, 20, 70])) == pytest.approx((0.05 + 0.1 + 1.75) / 3)


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
