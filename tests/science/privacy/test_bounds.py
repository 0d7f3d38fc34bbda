"""Bounds of participation against exhaustive enumeration: every coin, draw, tie and phase that can occur."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from aoi_fl.lab.rivals.oort import OortSelector
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.privacy.bounds import ParticipationBounds, bounds, kept_bounds
from aoi_fl.science.selection import OldestAgeSelector, RandomSelector
from aoi_fl.science.systematic import SystematicPolicy

SIZES = [(n, k) for n in range(1, 8) for k in range(1, n + 1)]
ROUNDS = 15  # long enough for two participations of every client in the grid


def reachable(start, step, rounds=ROUNDS):
    """Return the least gap and the most participations over every path of a chain of states.

    ``step(state)`` yields (next state, whether the client took part) for every outcome of positive probability.
    """
    paths, least, most = {(state, None, 0) for state in start}, math.inf, 0
    for _ in range(rounds):
        after = set()
        for state, since, count in paths:
            for follower, took in step(state):
                if took and since is not None:
                    least = min(least, since + 1)
                after.add((follower, 0 if took else None if since is None else since + 1, count + took))
        paths = after
        most = max(most, *(count for *_, count in paths))
    return least, most


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
        found = bounds(policy, ROUNDS)
        assert (found.min_separation, found.max_participations) == reachable(
            stationary_ages(table, dropout), coin(table, dropout)
        )
        assert found.exact


def dues(rate, phase, jitter, rounds):
    """Return, stride by stride, every round in which its participation can fall, by the definition in fractions."""
    put_off = min(Fraction(jitter), 1 - rate)
    for number in range(-2, math.ceil(rounds * rate) + 2):
        start = (number - phase) / rate  # the t for which t·r + u reaches a whole number
        yield {math.ceil(start + put_off * w / rate) for w in [Fraction(i, 64) for i in range(64)]} | {
            math.ceil(start + put_off / rate * (1 - Fraction(1, 10**9)))
        }


def enumerated(rate, phase, jitter, rounds):
    strides = list(dues(rate, phase, jitter, rounds))
    gaps = [
        late - early
        for before, after in itertools.pairwise(strides)
        for early in before
        for late in after
        if early >= 1 and late <= rounds
    ]
    return min(gaps, default=math.inf), sum(any(1 <= due <= rounds for due in stride) for stride in strides)


@pytest.mark.parametrize("rate", sorted({Fraction(k, n) for n, k in SIZES}))
def test_systematic_bounds_are_those_of_every_draw_and_phase(rate):
    for jitter in [0, Fraction(1, 8), Fraction(1, 4), Fraction(1, 2), 1]:
        rounds = 4 * rate.denominator + 8
        for tick in range(rate.denominator):
            phase = Fraction(tick, rate.denominator)
            policy = SystematicPolicy(np.array([float(rate)]), np.array([float(phase)]), float(jitter))
            found = bounds(policy, rounds)
            assert (found.min_separation, found.max_participations) == enumerated(rate, phase, jitter, rounds)


def test_systematic_with_own_rates_takes_the_worst_client():
    rates = [Fraction(2, 5), Fraction(1, 3), Fraction(4, 15)]
    policy = SystematicPolicy.rated(np.array([float(r) for r in rates]), "random", 0.0, seed=3)
    each = [enumerated(r, Fraction(u), 0, 60) for r, u in zip(rates, policy.phases.tolist(), strict=True)]
    found = bounds(policy, 60)
    assert found.min_separation == min(least for least, _ in each)
    assert found.max_participations == max(most for _, most in each)


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
        found = bounds(OldestAgeSelector(k, seed=1), ROUNDS, clients=n)
        assert (found.min_separation, found.max_participations) == reachable([(0,) * n], ties(k))


def test_a_selector_that_learns_guarantees_nothing_exactly():
    found = bounds(OortSelector(per_round=2, seed=1), 20, clients=10)
    assert (found.min_separation, found.max_participations, found.exact) == (1, 20, False)


@pytest.mark.parametrize("wrong", [{"rounds": 0}, {"clients": 0}])
def test_numbers_below_one_are_refused(wrong):
    with pytest.raises(ConfigError):
        bounds(RandomSelector(1, 1), **{"rounds": 5, "clients": 3} | wrong)


def test_a_real_run_keeps_the_separation_alone():
    policy = SystematicPolicy.equal(20, 3)  # 15 strides at most in 100 rounds, and both ends keep 6 rounds alone
    assert bounds(policy, 100).max_participations == 15
    assert kept_bounds(policy, 100) == ParticipationBounds(6, 17, exact=False)
    assert kept_bounds(None, 0) == ParticipationBounds(1, 0, exact=False)
