"""Ages, the inverse laws, and the client's state machine."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoi_fl.science import draws
from aoi_fl.science.age import ClientAge, age, first_age, hazards, interval_given_age
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.rule import Clocks, Terms

F = Fraction
TABLES = [
    (F(0), F(0), F(1, 3)),
    (F(0), F(1, 4), F(1)),
    (F(1, 8), F(1, 2), F(3, 4)),
    (F(2, 5),),
    (F(1),),
    (F(0), F(1), F(0), F(1, 2)),  # age 2 and later can't be reached from 0
    (F(1, 2), F(0), F(0), F(1, 5)),
]


def hazard(table, a):
    return table[min(a, len(table) - 1)]


def above(table, x, a=0):
    """P(X > x | X > a), by the definition."""
    return math.prod((1 - hazard(table, j) for j in range(a, x)), start=F(1))


def mean_wait(table):
    m = len(table) - 1
    return sum(above(table, a) for a in range(m)) + above(table, m) / table[m]


def rule_of(table):
    """The rule by which one client with this table decides."""
    return MarkovPolicy.from_message(Terms(tuple(table)))


def test_ages_follow_equation_4():
    assert age(np.array([3, 0, -4]), 4).tolist() == [0, 3, 7]
    assert hazards((0.1, 0.2, 0.3), np.array([[0, 1], [2, 50]])).tolist() == [[0.1, 0.2], [0.3, 0.3]]


@pytest.mark.parametrize("table", TABLES)
def test_interval_given_age_inverts_the_exact_law(table):
    for a in [0, 1, 2, 3, 4, 9]:
        floats, tiny = [float(p) for p in table], 1e-9
        for x in range(a + 1, a + 14):
            low, high = 1 - above(table, x - 1, a), 1 - above(table, x, a)
            if low == high:
                continue
            assert interval_given_age(floats, a, float(low) + tiny) == x
            if high - low > F(1, 10**6):
                assert interval_given_age(floats, a, float(high) - tiny) == x


@pytest.mark.parametrize("table", TABLES)
def test_first_age_inverts_the_exact_law(table):
    floats, tiny, below = [float(p) for p in table], 1e-9, F(0)
    for a in range(14):
        mass = above(table, a) / mean_wait(table)
        if mass:
            assert first_age(floats, float(below) + tiny) == a
            assert first_age(floats, float(below + mass) - tiny) == a
        below += mass


unit = st.floats(0, 1, exclude_max=True)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.lists(st.tuples(st.integers(0, 9), unit), min_size=1))
def test_vectorised_equals_one_by_one(table, cases):
    table[-1] = max(table[-1], 0.01)
    ages, u = np.array([c[0] for c in cases]), np.array([c[1] for c in cases])
    waits = interval_given_age(table, ages, u)
    assert waits.dtype == np.int64
    assert waits.tolist() == [interval_given_age(table, *c) for c in cases]
    assert (waits > ages).all()
    assert first_age(table, u).tolist() == [first_age(table, v) for _, v in cases]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.integers(0, 9), unit)
def test_reserving_the_next_round_is_being_willing_in_it(table, a, u):
    table[-1] = max(table[-1], 0.01)
    if abs(u - table[min(a, len(table) - 1)]) > 1e-12:  # rounding may decide a tie
        rule, clocks = rule_of(table), Clocks(np.array([20 - a - 1]))
        assert (rule.next_round(clocks, 20, np.array([u])) == 20) == rule.participates(clocks, 20, np.array([u]))


def test_a_repeated_round_gets_the_same_answer():
    state = ClientAge(last=4)
    after = state.took_part(7)
    assert (state.age(7), after.age(7), after.age(8)) == (2, 2, 0)
    assert after == ClientAge(last=7, before=4)
    assert after.took_part(7) == after
    reserved = replace(after, reserved=10)
    assert reserved.took_part(7) == reserved  # repeating round 7 keeps what was announced after it
    assert reserved.due(7)
    assert reserved.due(reserved.reserved)
    assert not reserved.due(8)
    assert reserved.took_part(reserved.reserved).reserved is None


def test_late_messages_change_nothing_and_no_age_is_negative():
    state = ClientAge(last=7, before=4)
    assert state.took_part(5) == state
    assert state.took_part(4) == state
    assert [state.age(r) for r in (3, 4, 5, 6, 7, 8)] == [0, 0, 0, 1, 2, 0]
    assert ClientAge(last=7).age(7) == 0


def play(rule, coordination, n, seed=3):
    """(n, 3) the rounds in which clients first take part, from a stationary start."""
    clocks, round_ = Clocks(-rule.first_age(1, draws.uniforms(seed, 0, "first", n))), 0
    reserve = coordination == "reserve"
    reserved = rule.next_round(clocks, 1, draws.uniforms(seed, 1, "reserve", n)) if reserve else None
    times = [[] for _ in range(n)]
    while min(map(len, times)) < 3:
        round_ += 1
        coins = draws.uniforms(seed, round_, "participate", n)
        took = reserved == round_ if reserve else rule.participates(clocks, round_, coins)
        clocks = rule.advance(clocks, round_, took)
        if reserve:
            again = rule.next_round(clocks, round_ + 1, draws.uniforms(seed, round_ + 1, "reserve", n))
            reserved = np.where(took, again, reserved)
        for client in np.flatnonzero(took).tolist():
            times[client].append(round_)
    return np.array([own[:3] for own in times])


@pytest.mark.parametrize("kind", ["optimal", "increasing"])
def test_coins_and_reservations_give_the_same_law_of_x(kind):
    """Error bar: Dvoretzky–Kiefer–Wolfowitz, wrong once in 10^6 runs: √(ln(2·10^6)/(2N)) = 0.060 for N = 2000.

    The first wait, from round 0 to the first participation, is held to P(X ≥ r)/E[X] in the same way.
    """
    n = 2000
    policy = getattr(MarkovPolicy, kind)(100, 15, 10)
    bound = math.sqrt(math.log(2e6) / (2 * n))
    law = np.cumsum(policy.interval_pmf())
    first = np.cumsum(np.concatenate(([1.0], 1 - law[:-1]))) / policy.interval_mean
    for coordination in ("poll", "reserve"):
        parts = play(rule_of(policy.probabilities), coordination, n)
        for waits, expected in (
            (parts[:, 0], first),
            (parts[:, 1] - parts[:, 0], law),
            (parts[:, 2] - parts[:, 1], law),
        ):
            counts = np.bincount(waits, minlength=len(expected) + 1)[1 : len(expected) + 1]
            assert np.abs(np.cumsum(counts) / n - expected).max() < bound
