"""The floor under P2 against every schedule of two clients."""

from itertools import product

import numpy as np
import pytest

from aoi_fl.science.objective import lagrangian_floor, p2


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
