"""Amplified ε as a bound: against quadrature over every pattern, closed forms, libraries and other measurements."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from aoi_fl.lab.privacy import amplification
from aoi_fl.lab.privacy.amplification import AgeMixture, PatternMixture, amplified, bound
from aoi_fl.lab.privacy.without_replacement import epsilon_without_replacement
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.privacy.account import Account, bisect
from aoi_fl.science.privacy.factorisation import coefficients
from aoi_fl.science.selection import OldestAgeSelector, RandomSelector
from aoi_fl.science.systematic import SystematicPolicy
from tests.fakes import slow

ROUNDS = 100
MARKOV, SYSTEMATIC = MarkovPolicy.optimal(100, 15), SystematicPolicy.equal(100, 15, "random")
in_noise = pytest.mark.parametrize(
    "deviation, delta, slack",
    [(0.5, 1e-15, 1.05), (0.5, 1e-3, 1.02), (2.0, 1e-15, 1.7), (2.0, 1e-9, 1.8), (2.0, 1e-3, 1.03)],
)


def account_at(error, bands=6, separation=6):
    return Account(separation, ROUNDS, error / Account(separation, ROUNDS, 1.0, bands).error, bands)


# Monte Carlo by others, ± 2 %: n = 100, k = 15, T = 100, δ = 10⁻³, six bands but for the last.
@pytest.mark.parametrize(
    "policy, bands, error, measured",
    [
        (SYSTEMATIC, 6, 20, 1.56),
        (SYSTEMATIC, 6, 3.5, 16.5),
        *slow((MARKOV, 6, 11.7, 3.00), (MARKOV, 1, 6, 15.7)),
    ],
)
def test_bounds_are_close_to_independent_measurements(policy, bands, error, measured):
    found = amplified(policy, 100, account_at(error, bands), 1e-3)
    assert 0.98 * measured < found < 1.03 * measured


def by_quadrature(first, second, deviation, delta):
    """Return ε of two mixtures of (mean, weight) over the noise, on a fine grid over all of their T rounds."""
    rounds = len(first[0][0])
    reach = max(max(map(abs, mean)) for mean, _ in (*first, *second)) + 10 * deviation
    axis = np.linspace(-reach, reach, 1 + (600 if rounds == 2 else 20000))
    grids = np.meshgrid(*[axis] * rounds, sparse=True)
    cell = (axis[1] - axis[0]) ** rounds

    def density(law):
        return sum(
            w * math.prod(norm.pdf(g, m, deviation) for g, m in zip(grids, mean, strict=True)) for mean, w in law
        )

    ours, theirs = density(first) * cell, density(second) * cell

    def hockey_stick(epsilon, sign):
        a, b = (ours, theirs) if sign > 0 else (theirs, ours)
        return np.maximum(a - math.exp(epsilon) * b, 0).sum()

    return max(bisect(lambda e, s=sign: hockey_stick(e, s) > delta, 400.0) for sign in (1, -1))


def markov_patterns(policy, column, rounds):
    """Return (mean, weight) of every history of a client."""
    law = []
    for first, p in enumerate(policy.stationary.tolist()):
        for joined in itertools.product((0, 1), repeat=rounds):
            age, weight = first, p
            for took_part in joined:
                hazard = policy.hazards[min(age, policy.max_age)]
                weight *= hazard if took_part else 1 - hazard
                age = 0 if took_part else age + 1
            if weight:
                law.append((np.convolve(joined, column)[:rounds].tolist(), weight))
    return law


@in_noise
@pytest.mark.parametrize(
    "policy, bands, rounds",
    [
        (MarkovPolicy.optimal(10, 3, 4), 2, 2),
        (MarkovPolicy.increasing(10, 4, 3), 1, 2),
        (MarkovPolicy.uniform(10, 4, 0), 1, 2),
        (MARKOV, 6, 1),
    ],
)
def test_markov_bounds_are_just_above_quadrature(policy, bands, rounds, deviation, delta, slack):
    column = coefficients(bands)
    exact = by_quadrature(markov_patterns(policy, column, rounds), [([0] * rounds, 1)], deviation, delta)
    found = bound(AgeMixture(policy.hazards, column, deviation, rounds), delta)
    assert exact * (1 - 1e-3) <= found <= slack * exact


@in_noise
def test_systematic_bounds_are_just_above_quadrature(deviation, delta, slack):
    column, policy = coefficients(2), SystematicPolicy.equal(10, 3, "random")
    patterns = [
        (np.convolve(np.diff(np.floor(np.arange(3) * 0.3 + phase)), column)[:2].tolist(), 0.1)
        for phase in np.arange(10) / 10 + 0.05
    ]
    exact = by_quadrature(patterns, [([0, 0], 1)], deviation, delta)
    found = bound(PatternMixture.systematic(policy.rates[0], column, deviation, 2), delta)
    assert exact * (1 - 1e-3) <= found <= slack * exact


@pytest.mark.parametrize("rate, deviation, delta", [(0.15, 0.8, 1e-15), (0.15, 0.8, 1e-3), (0.5, 3.0, 1e-9)])
def test_random_selection_is_bounded_for_every_pair_of_updates(rate, deviation, delta):
    found = epsilon_without_replacement(rate, deviation, 1, delta)
    worst = 0.0
    for angle, ours, others in [(math.pi, 1, 1), (0, 1, 1), (math.pi, 1, 0.5), (2, 1, 1), (1, 0.7, 1)]:
        theirs = ((others * math.cos(angle), others * math.sin(angle)), 1 - rate)
        neighbours = [((ours, 0.0), rate), theirs], [((0.0, 0.0), rate), theirs]
        worst = max(worst, by_quadrature(*neighbours, deviation, delta))
    assert worst * (1 - 1e-3) <= found <= worst * 1.002 + 1e-3


@pytest.mark.parametrize("delta", [1e-15, 1e-9, 1e-3])
def test_two_rounds_of_random_selection_are_those_of_quadrature(delta):
    ours, theirs = ((1.0, 0.3), (-1.0, 0.7)), ((0.0, 0.3), (-1.0, 0.7))
    twice = [[((a, b), p * q) for (a, p), (b, q) in itertools.product(one, one)] for one in (ours, theirs)]
    exact = by_quadrature(*twice, 1.0, delta)
    found = epsilon_without_replacement(0.3, 1.0, 2, delta)
    assert exact * (1 - 1e-3) <= found <= exact * 1.01


def test_bounds_fail_no_more_often_than_they_say(monkeypatch):
    monkeypatch.setattr(amplification, "FAILURE", 0.4)  # 0.2 for each direction
    mean, deviation, delta = 1.0, 0.7, 1e-3
    exact = by_quadrature([((mean,), 0.15), ((0,), 0.85)], [((0,), 1)], deviation, delta)
    mixture = PatternMixture(np.array([0.15, 0.85]), np.array([[mean / deviation], [0.0]]))
    below = [bound(mixture, delta, samples=600, seed=seed) < exact for seed in range(150)]
    assert 0 < np.mean(below) < 0.25


@pytest.mark.parametrize(
    "policy, phases, bands",
    [
        (SYSTEMATIC, "spread", 6),  # the others' rounds show a client's own
        (SystematicPolicy.equal(100, 15, "random", jitter=0.1), "random", 5),
        (MarkovPolicy.optimal(100, 15, 10, dropout=0.1), "random", 1),
        (MarkovPolicy.rated(np.array([0.1, 0.2])), "random", 1),
        (OldestAgeSelector(15, 1), "random", 6),
        (RandomSelector(100, 1), "random", 1),  # all of them
    ],
)
def test_without_a_bound_there_is_no_number(policy, phases, bands):
    assert amplified(policy, 100, account_at(6, bands), 1e-3, phases) is None


@pytest.mark.parametrize("multiplier", [1e-3, 1e5])
def test_extreme_noise_has_no_number_below_the_account(multiplier):
    assert amplified(MARKOV, 100, Account(6, ROUNDS, multiplier, 6), 1e-3) is None
