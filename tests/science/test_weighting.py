"""Aggregation weights: E[ω_i] = q_i of the unbiased ones, by enumeration of all that can happen."""

from itertools import combinations, product

import numpy as np
import pytest

from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.mixing import stationary
from aoi_fl.science.selection import OldestAgeSelector, ProportionalSelector, RandomSelector
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


@pytest.mark.parametrize("k", [1, 2, 5])
def test_unbiased_under_random_selection(k):
    rates = long_run_rates(RandomSelector(k, 1), population(SIZES))
    subsets = list(combinations(range(5), k))
    mean, spread = moments((1 / len(subsets), list(s), unbiased(s, rates)) for s in subsets)
    assert mean == pytest.approx(SHARES, abs=1e-15)
    assert spread == pytest.approx(unbiased_weight_variance(SIZES, rates))


@pytest.mark.parametrize("k", [1, 2, 4])
def test_unbiased_weights_allow_clients_without_examples(k):
    sizes = np.array([4, 0, 7, 0, 5])
    rates = long_run_rates(RandomSelector(k, 1), population(sizes))
    assert rates[[1, 3]].tolist() == [0, 0]
    selections = [RandomSelector(k, 1).select(t, population(sizes)).clients for t in range(1, 4001)]
    drawn = np.bincount(np.concatenate(selections), minlength=5) / 4000
    assert drawn == pytest.approx(rates, abs=0.03)


def test_unbiased_under_systematic_participation():
    # A whole period of all five strides: ten rounds.
    strides = SystematicPolicy.rated(RATES, "random", seed=3).strides
    rounds = [np.flatnonzero(strides.begin(t)) for t in range(1, 11)]
    mean, spread = moments((0.1, s, unbiased(s, RATES)) for s in rounds)
    assert mean == pytest.approx(SHARES, abs=1e-15)
    assert spread == pytest.approx(unbiased_weight_variance(SIZES, RATES))


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_unbiased_under_stationary_markov_clients(dropout):
    policy = MarkovPolicy.rated(RATES, 3, dropout)
    rates = []
    for i in range(5):
        hazards = np.array(policy.table(i)) * (1 - dropout)
        rates.append(float(stationary(hazards) @ hazards))  # takes part in any one round
    cases = []
    for pattern in product((False, True), repeat=5):
        s = np.flatnonzero(pattern)
        cases.append((np.prod(np.where(pattern, rates, 1 - np.array(rates))), s, unbiased(s, policy.rates)))
    mean, spread = moments(cases)
    assert mean == pytest.approx(SHARES, rel=1e-12)
    assert spread == pytest.approx(unbiased_weight_variance(SIZES, RATES), rel=1e-10)


def test_weighting_of_a_history():
    for weighting, policy in product(("equal", "size"), (SystematicPolicy.rated(RATES), OldestAgeSelector(3, 1))):
        history = simulate(policy, population(SIZES), 20, 1, weighting=weighting)
        for t in range(1, 21):
            chosen = history.selection(t)
            parts = SIZES[chosen.clients] if weighting == "size" else np.ones(len(chosen.clients))
            assert chosen.weights == pytest.approx(parts / max(parts.sum(), 1))


def test_shares_of_sizes_below_one_sum_to_one():
    assert weigh("size", np.array([1, 2]), np.array([0.5, 0.25, 0.125])) == pytest.approx([2 / 3, 1 / 3])


def test_nobody_weighs_nothing():
    for weighting in ("equal", "size", "unbiased"):
        assert weigh(weighting, np.empty(0, np.int64), SIZES, RATES).tolist() == []


def test_unbiased_weights_of_proportional_draws_are_its_own():
    selector = ProportionalSelector(4, 2)
    own, unbiased_ = (simulate(selector, population(SIZES), 50, 2, weighting=w).weights for w in (None, "unbiased"))
    assert unbiased_ == pytest.approx(own)
