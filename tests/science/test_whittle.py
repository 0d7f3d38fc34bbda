"""The index against the single-client problem it solves.

Nothing here uses the closed forms (25), (26) to compute what it compares them with: the single-client problem is
solved by policy iteration.
"""

import math

import numpy as np
import pytest

from aoi_fl.science.ageing import AGEING, ageing_index
from aoi_fl.science.convergence import ConvergenceConstants, alphas, sensitivities
from aoi_fl.science.whittle import whittle_index

# --- the single client's problem P4, eqs. (19)–(24) ---


def gain_of_selecting(cost, charge, timing, oldest, ageing):
    """How much cheaper refreshing than waiting is at each age, at the optimum; shape (oldest+1, *charge.shape).

    Howard's policy iteration for the average cost of the deterministic chain: age d → 0 for cost + charge if selected,
    d → d+1 else; at the oldest age selection is forced. ``timing`` says whether a round costs its age before the
    decision or after it.
    """
    ages = np.arange(oldest + 1.0)
    selects = np.ones((oldest + 1, *charge.shape), dtype=bool)
    wait_cost = cost * ageing(ages if timing == "before" else ages + 1.0)
    select_cost = cost * (ageing(ages) if timing == "before" else 0.0 * ages)
    for _ in range(200):
        # Evaluate: from age 0 the policy first selects at age h, so a cycle has h+1 rounds.
        first = selects.argmax(axis=0)
        total = np.concatenate([[0.0], np.cumsum(wait_cost)])[first] + select_cost[first] + charge
        mean = total / (first + 1)
        value = np.empty((oldest + 2, *charge.shape))
        value[oldest + 1] = np.inf
        for age in range(oldest, -1, -1):
            value[age] = np.where(selects[age], select_cost[age] + charge, wait_cost[age] + value[age + 1]) - mean
        at = (slice(None), *[None] * charge.ndim)
        gain = (wait_cost[at] + value[1:]) - (select_cost[at] + charge + value[0])
        better = gain > 1e-12 * (1 + charge)
        worse = gain < -1e-12 * (1 + charge)
        improved = (selects | better) & ~worse
        if (improved == selects).all():
            return gain
        selects = improved
    raise AssertionError("policy iteration did not settle")


AGES = np.arange(51)


@pytest.mark.parametrize("ageing", AGEING)
@pytest.mark.parametrize("timing", ["before", "after"])
def test_the_index_makes_a_single_client_indifferent(ageing, timing):
    terms = AGES, np.full(51, 13.7), np.full(51, 0.9), 40.0
    index = whittle_index(*terms) if ageing == "linear" else ageing_index(*terms, ageing)
    for factor, sign in ((1 - 1e-7, 1), (1 + 1e-7, -1)):  # for a bit less it is refreshed, for a bit more it waits
        gain = gain_of_selecting(40.0 * 0.9 / 13.7, factor * index, timing, 70, AGEING[ageing])[AGES, AGES]
        assert (np.sign(gain) == sign).all()


def test_ages_that_no_run_reaches_have_an_index_without_a_table():
    ages = np.array([0, 99_999, 100_000, 2**31 - 1])  # the oldest that a client may declare
    one = (np.ones(ages.size), np.ones(ages.size), 1.0)
    n = ages.astype(object)  # Python's integers
    squares = (n + 1) ** 3 - n * (n + 1) * (2 * n + 1) // 6
    assert ageing_index(ages, *one, "quadratic") == pytest.approx(squares.astype(float), rel=1e-15)
    exact = [(a + 1) ** 1.5 - math.fsum(np.sqrt(np.arange(a + 1.0))) for a in (0, 99_999, 100_000, 100_000)]
    assert ageing_index(ages, *one, "root") == pytest.approx(exact, rel=1e-12)


# --- the constants of Theorem 1 ---


def test_alpha_is_the_coefficient_that_appendix_a1_sums_up():
    # 2·(A.5) + (A.3) + 2·(A.6), each term's coefficient of [G² + Δσ²] written out for one client at a constant rate.
    sizes, beta, mu, eta, tau = np.array([100, 300, 600]), 4.0, 0.5, 0.01, 10
    share = sizes / 1000
    a5 = share * eta / (2 * mu)
    a3 = 3 * tau**2 * eta**2 * share**2
    a6 = 3 * eta * (tau - 1) ** 2 / mu * share**2
    constants = ConvergenceConstants(smoothness=beta, convexity=mu, learning_rate=eta, local_steps=tau)
    np.testing.assert_allclose(alphas(sizes, constants), 2 * a5 + a3 + 2 * a6, rtol=1e-12)
    growth = np.array([0.1, 0.2, 0.3])
    # P2 is meant to be the bound's sum over rounds and clients: φ/(TN) = α σ² β/2.
    phi = sensitivities(sizes, growth, constants, rounds=200)
    np.testing.assert_allclose(phi / (200 * 3), alphas(sizes, constants) * growth * beta / 2, rtol=1e-12)
