"""Aggregation weights: E[ω_i] = q_i of the unbiased ones, by enumeration of all that can happen."""

from itertools import combinations

import numpy as np
import pytest

from aoi_fl.science.selection import ProportionalSelector, RandomSelector
from aoi_fl.science.simulate import long_run_rates, simulate
from aoi_fl.science.systematic import SystematicPolicy
from aoi_fl.science.weighting import weigh
from tests.science.populations import population

SIZES = np.array([4, 1, 7, 3, 5])
SHARES = SIZES / SIZES.sum()
RATES = np.array([0.4, 0.1, 0.7, 0.3, 0.5])  # of 2 clients in the mean


def moments(cases):
    """Return E[ω] and Σ Var[ω_i] of (probability, clients, weights)."""
    mean, square = np.zeros(len(SIZES)), 0.0
    for probability, clients, weights in cases:
        mean[clients] += probability * weights
        square += probability * float(weights @ weights)
    return mean, square - float(mean @ mean)


def unbiased(clients, rates):
    return weigh("unbiased", np.array(clients, dtype=np.int64), SIZES, rates)


def unbiased_weight_variance(sizes, rates):
    """Σ q_i²(1/r_i − 1): the weight is q_i/r_i with probability r_i, else 0."""
    return float((sizes / sizes.sum()) ** 2 @ (1 / rates - 1))


def test_clients_without_examples_have_no_rate_and_leave_the_others_more():
    rates = long_run_rates(RandomSelector(2, 1), population(np.array([0, 4, 0, 1, 3])))
    np.testing.assert_allclose(rates, [0, 2 / 3, 0, 2 / 3, 2 / 3])


@pytest.mark.parametrize("k", [1, 2, 5])
def test_unbiased_under_random_selection(k):
    rates = long_run_rates(RandomSelector(k, 1), population(SIZES))
    subsets = list(combinations(range(5), k))
    mean, spread = moments((1 / len(subsets), list(s), unbiased(s, rates)) for s in subsets)
    assert mean == pytest.approx(SHARES, abs=1e-15)
    assert spread == pytest.approx(unbiased_weight_variance(SIZES, rates))


def test_unbiased_under_systematic_participation():
    # A whole period of all five strides: ten rounds.
    strides = SystematicPolicy.rated(RATES, "random", seed=3).strides
    rounds = [np.flatnonzero(strides.last_start(t) == t) for t in range(1, 11)]
    mean, spread = moments((0.1, s, unbiased(s, RATES)) for s in rounds)
    assert mean == pytest.approx(SHARES, abs=1e-15)
    assert spread == pytest.approx(unbiased_weight_variance(SIZES, RATES))


def test_unbiased_weights_of_proportional_draws_are_its_own():
    selector = ProportionalSelector(4, 2)
    own, unbiased_ = (simulate(selector, population(SIZES), 50, 2, weighting=w).weights for w in (None, "unbiased"))
    assert unbiased_ == pytest.approx(own)
