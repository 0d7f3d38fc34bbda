"""Bounds of participation against exhaustive enumeration: every coin, draw, tie and phase that can occur."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.participation import SystematicRule
from aoi_fl.science.privacy.bounds import min_separation
from aoi_fl.science.selection import OldestAgeSelector, RandomSelector
from aoi_fl.science.systematic import SystematicPolicy

SIZES = [(n, k) for n in range(1, 8) for k in range(1, n + 1)]
ROUNDS = 15  # long enough for two participations of every client in the grid


def least_gap(start, step):
    """Return the least gap over every path of a chain of states.

    ``step(state)`` yields (next state, whether the client took part) for every outcome of positive probability.
    """
    paths, least = {(state, None) for state in start}, math.inf
    for _ in range(ROUNDS):
        after = set()
        for state, since in paths:
            for follower, took in step(state):
                if took and since is not None:
                    least = min(least, since + 1)
                after.add((follower, 0 if took else None if since is None else since + 1))
        paths = after
    return least


def coin(table, dropout):
    """Return the chain of one Markov client: its age, and whether it takes part in fact."""

    def step(age):
        p = table[min(age, len(table) - 1)]
        if p > 0:
            yield 0, True
        if p < 1 or dropout > 0:
            yield age + 1, False

    return step


def stationary_ages(table, dropout):
    """Return every age that a client can have: those of a chain that has run for long."""
    ages = {0}
    for _ in range(3 * len(table)):
        ages |= {age for old in ages for age, _ in coin(table, dropout)(old)}
    return ages


@pytest.mark.parametrize("max_age", [0, 1, 3, 8])
def test_markov_bounds_are_those_of_every_coin(max_age):
    for n, k, dropout in [(n, k, d) for n, k in SIZES for d in (0.0, 0.25) if d <= 1 - k / n]:
        policy = MarkovPolicy.optimal(n, k, max_age, dropout)
        table = policy.probabilities
        assert min_separation(policy) == least_gap(stationary_ages(table, dropout), coin(table, dropout))


def dues(rate, phase, jitter, rounds):
    """Return, stride by stride, the rounds in which its participation can fall, by the definition in fractions."""
    put_off = min(Fraction(jitter), 1 - rate) / rate * (1 - Fraction(1, 10**9))
    for number in range(-2, math.ceil(rounds * rate) + 2):
        start = (number - phase) / rate  # the t for which t·r + u reaches a whole number
        yield range(math.ceil(start), math.ceil(start + put_off) + 1)


def enumerated(rate, phase, jitter, rounds):
    return min(
        late - early
        for before, after in itertools.pairwise(dues(rate, phase, jitter, rounds))
        for early in before
        for late in after
        if early >= 1 and late <= rounds
    )


@pytest.mark.parametrize("rate", sorted({Fraction(k, n) for n, k in SIZES}))
def test_systematic_bounds_are_those_of_every_draw_and_phase(rate):
    for jitter in [0, Fraction(1, 8), Fraction(1, 4), Fraction(1, 2), 1]:
        rounds = 4 * rate.denominator + 8
        for tick in range(rate.denominator):
            phase = Fraction(tick, rate.denominator)
            policy = SystematicPolicy(np.array([float(rate)]), np.array([float(phase)]), float(jitter))
            assert min_separation(policy) == enumerated(rate, phase, jitter, rounds)


def ties(per_round):
    """Return the chain of the oldest-age selector: client 0's age and everybody's, for every way to break ties."""

    def step(ages):
        order = sorted(ages, reverse=True)
        edge = order[per_round - 1]
        older = [i for i, age in enumerate(ages) if age > edge]
        tied = [i for i, age in enumerate(ages) if age == edge]
        for rest in itertools.combinations(tied, per_round - len(older)):
            chosen = {*older, *rest}
            after = [0 if i in chosen else age + 1 for i, age in enumerate(ages)]
            yield (after[0], *sorted(after[1:])), 0 in chosen

    return step


def test_oldest_age_bounds_are_those_of_every_tie():
    for n, k in [(n, k) for n, k in SIZES if n <= 5]:
        assert min_separation(OldestAgeSelector(k, seed=1), n) == least_gap([(0,) * n], ties(k))


def test_a_real_run_keeps_the_separation_alone():
    policy = SystematicPolicy.rated(np.array([0.15, 0.1]))
    assert min_separation(policy) == 6
    for unsure in (None, RandomSelector(2, 1), SystematicRule.learning(policy.rates)):
        assert min_separation(unsure, 10) == 1
