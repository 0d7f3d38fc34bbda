"""Bounds of participation against exhaustive enumeration: every coin, draw, tie and phase that can occur."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from aoi_fl.lab.rivals.oort import OortSelector
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.privacy.bounds import bounds
from aoi_fl.science.selection import OldestAgeSelector, ProportionalSelector, RandomSelector
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
        found = bounds(policy, ROUNDS, lost=dropout > 0)
        assert (found.min_separation, found.max_participations) == reachable(
            stationary_ages(table, dropout), coin(table, dropout)
        )
        assert found.exact


def test_equal_rates_are_n_over_k_rounds_apart():
    for n, k in SIZES:
        assert bounds(MarkovPolicy.optimal(n, k, n), ROUNDS).min_separation >= n // k
        assert bounds(SystematicPolicy.equal(n, k), ROUNDS).min_separation >= n // k


@pytest.mark.parametrize("make", [MarkovPolicy.increasing, MarkovPolicy.uniform])
def test_tables_without_a_zero_guarantee_nothing(make):
    found = bounds(make(10, 2, 4), 20)
    assert (found.min_separation, found.max_participations, found.exact) == (1, 20, True)


def test_own_rates_are_bounded_by_the_most_frequent_client():
    rates = np.array([0.4, 0.3, 0.15, 0.15])
    found = bounds(MarkovPolicy.rated(rates), ROUNDS)
    paths = [reachable(stationary_ages(t, 0), coin(t, 0)) for t in map(MarkovPolicy.rated(rates).table, range(4))]
    assert found.min_separation == min(least for least, _ in paths)
    assert found.max_participations == max(most for _, most in paths)


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


def made_up(strides):
    """Return the chain of a systematic client that any round may find out of reach: missed strides are one."""

    def step(state):
        round_, owing = state
        owing = owing or any(due == round_ for due in strides)
        if owing:
            yield (round_ + 1, False), True
        yield (round_ + 1, owing), False

    return step


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(2, 5), Fraction(3, 4)])
def test_a_lost_round_that_is_made_up_breaks_the_separation(rate):
    policy = SystematicPolicy(np.array([float(rate)]), np.array([0.0]))
    strides = [min(rounds) for rounds in dues(rate, 0, 0, ROUNDS)]
    found = bounds(policy, ROUNDS, lost=True)
    assert (found.min_separation, found.max_participations) == reachable([(1, False)], made_up(strides))


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
        lost = bounds(OldestAgeSelector(k, seed=1), ROUNDS, clients=n, lost=True)
        assert (lost.min_separation, lost.max_participations) == (1, ROUNDS)


@pytest.mark.parametrize("selector", [RandomSelector(2, 1), ProportionalSelector(2, 1)])
def test_random_choice_guarantees_nothing(selector):
    found = bounds(selector, 20, clients=10)
    assert (found.min_separation, found.max_participations, found.exact) == (1, 20, True)


def test_a_selector_that_learns_guarantees_nothing_exactly():
    found = bounds(OortSelector(per_round=2, seed=1), 20, clients=10)
    assert (found.min_separation, found.max_participations, found.exact) == (1, 20, False)


def forced(tables):
    """Return the chain of Markov clients of which the server forces one where none is willing; client 0 is watched."""

    def step(ages):
        for coins in itertools.product((False, True), repeat=len(ages)):
            chances = [t[min(a, len(t) - 1)] for t, a in zip(tables, ages, strict=True)]
            if any((p == 0 and c) or (p == 1 and not c) for p, c in zip(chances, coins, strict=True)):
                continue
            for who in [coins] if any(coins) else [[i == j for j in range(len(ages))] for i in range(len(ages))]:
                yield tuple(0 if took else age + 1 for took, age in zip(who, ages, strict=True)), who[0]

    return step


@pytest.mark.parametrize("n, k", [(2, 1), (3, 1), (3, 2)])
def test_a_forced_client_breaks_the_separation(n, k):
    policy = MarkovPolicy.optimal(n, k, 6)
    start = itertools.product(sorted(stationary_ages(policy.probabilities, 0)), repeat=n)
    least, most = reachable(list(start), forced([policy.probabilities] * n), rounds=6)
    found = bounds(policy, 6, forced=True)
    assert found.min_separation == least == 1
    assert found.max_participations >= most
    assert not found.exact


def test_exactly_k_a_round_leave_no_round_to_force():
    for n, k in [(n, k) for n, k in SIZES if n > 1]:
        policy = SystematicPolicy.equal(n, k)
        assert bounds(policy, ROUNDS, forced=True) == bounds(policy, ROUNDS)
        assert bounds(policy, ROUNDS, forced=True, lost=True).max_participations == ROUNDS


def test_lost_state_breaks_what_the_client_decides():
    assert bounds(MarkovPolicy.optimal(10, 2, 9), 20, forgotten=True).min_separation == 1
    assert bounds(OldestAgeSelector(2, 1), 20, clients=10, forgotten=True).min_separation == 5


@pytest.mark.parametrize("promise", [1, 2, 5, 40])
def test_the_promise_of_clients_restores_the_separation(promise):
    policy = MarkovPolicy.optimal(10, 2, 9)
    found = bounds(policy, 30, forced=True, forgotten=True, lost=True, promise=promise)
    assert found.min_separation == promise
    assert found.max_participations == math.ceil(30 / promise)
    assert bounds(policy, 30, promise=promise).min_separation == max(promise, 5)


def test_the_promise_keeps_the_count_of_strides():
    policy = SystematicPolicy.equal(20, 3)  # b = 6, 15 strides at most in 100 rounds
    found = bounds(policy, 100, lost=True, promise=6)
    assert (found.min_separation, found.max_participations) == (6, 15)


@pytest.mark.parametrize("wrong", [{"rounds": 0}, {"clients": 0}, {"promise": 0}])
def test_numbers_below_one_are_refused(wrong):
    with pytest.raises(ConfigError):
        bounds(RandomSelector(1, 1), **{"rounds": 5, "clients": 3} | wrong)
