"""Ages, the inverse laws, and the client's state machine."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoi_fl.science.age import ClientAge, first_age, interval_given_age
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


@pytest.mark.parametrize("table", TABLES)
def test_interval_given_age_inverts_the_exact_law(table):
    tiny, cases = 1e-9, []  # age, uniform number, wait
    for a in [0, 1, 2, 3, 4, 9]:
        for x in range(a + 1, a + 14):
            low, high = 1 - above(table, x - 1, a), 1 - above(table, x, a)
            if high - low > F(1, 10**6):
                cases += [(a, float(low) + tiny, x), (a, float(high) - tiny, x)]
    ages, u, waits = map(np.array, zip(*cases, strict=True))
    assert interval_given_age([float(p) for p in table], ages, u).tolist() == waits.tolist()


@pytest.mark.parametrize("table", TABLES)
def test_first_age_inverts_the_exact_law(table):
    floats, tiny, below = [float(p) for p in table], 1e-9, F(0)
    for a in range(14):
        mass = above(table, a) / mean_wait(table)
        if mass:
            edges = np.array([float(below) + tiny, float(below + mass) - tiny])
            assert first_age(floats, edges).tolist() == [a, a]
        below += mass


unit = st.floats(0, 1, exclude_max=True)


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
