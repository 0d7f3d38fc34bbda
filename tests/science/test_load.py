"""Measures of a history by hand and against loops over a full matrix; pairs of clients that meet, against sets."""

from collections import Counter
from dataclasses import asdict
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoi_fl.science.history import History
from aoi_fl.science.load import WINDOWS, measure, pairs_met
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.selection import Selection
from aoi_fl.science.simulate import simulate
from tests.science.populations import equals


@st.composite
def histories(draw):
    """A matrix of how often each client was drawn in each round, and first ages."""
    n, rounds = draw(st.integers(1, 6)), draw(st.integers(1, 25))
    cell = st.sampled_from([0, 0, 0, 1, 2])
    row = st.lists(cell, min_size=n, max_size=n)
    table = np.array(draw(st.lists(row, min_size=rounds, max_size=rounds)))
    return table, np.array(draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)))


@given(histories())
@settings(max_examples=150, deadline=None)
def test_against_loops_over_a_full_matrix(case):
    table, first_ages = case
    rounds, n = table.shape
    each = [np.flatnonzero(row) for row in table]
    chosen = [Selection(who, row[who] / max(row.sum(), 1), row[who]) for who, row in zip(each, table, strict=True)]
    history = History.of(chosen, first_ages)
    m = measure(history)
    when, who = np.nonzero(table)
    again = History.from_arrays(n, rounds, when[::-1] + 1, who[::-1], history.weights[::-1], first_ages)
    assert (again.members.tolist(), again.weights.tolist()) == (history.members.tolist(), history.weights.tolist())

    intervals, ages = [], []
    for column, age in zip(table.T, first_ages, strict=True):
        intervals += np.diff(np.flatnonzero(column)).tolist()
        for drawn in column:
            ages.append(age)
            age = 0 if drawn else age + 1
    assert m.interval_counts == Counter(intervals)
    moments = (np.mean(intervals), np.var(intervals)) if intervals else (None, None)
    assert (m.interval_mean, m.interval_variance) == pytest.approx(moments)
    assert list(m.window_deviation) == [length for length in WINDOWS if length <= rounds]
    for length, value in m.window_deviation.items():
        y = [table[a : a + length, i].sum() for a in range(0, rounds - length + 1, length) for i in range(n)]
        assert value == pytest.approx(np.std(y) / length)
    counts = (table > 0).sum(axis=0)
    jain = counts.sum() ** 2 / (n * (counts**2).sum()) if counts.any() else 1.0
    assert asdict(m.participation) == pytest.approx(
        {"mean": counts.mean(), "min": counts.min(), "max": counts.max(), "jain": jain}
    )
    assert m.empty_rounds == (~table.any(axis=1)).sum()
    assert (m.mean_age, m.peak_age) == (pytest.approx(np.mean(ages)), max(ages))
    weights = [row / row.sum() for row in table if row.any()]
    spread = np.var(weights, axis=0).sum() if weights else None
    assert m.weight_variance == pytest.approx(spread, abs=1e-12)


def test_a_run_without_rounds_yet_has_metrics():
    m = measure(History.from_arrays(4, 0, [], [], []))
    assert (m.window_deviation, m.interval_mean, m.weight_variance, m.participation.max) == ({}, None, None, 0)
    assert m.round_mean == m.round_deviation == 0


def in_sets(history, length):
    met = set()
    for t in range(1, length + 1):
        met |= set(combinations(history.selection(t).clients.tolist(), 2))
    return len(met) / (history.clients * (history.clients - 1) / 2)


@pytest.mark.parametrize("n", [2, 7, 16, 33])
def test_share_of_pairs_against_sets(n):
    history = simulate(MarkovPolicy.uniform(n, max(n // 4, 1), 2), equals(n), 30, seed=n)
    found = pairs_met(history, range(1, 31))
    assert found == pytest.approx({t: in_sets(history, t) for t in range(1, 31)})
    m = measure(history)
    assert (m.pairs_met, m.met) == ({t: found[t] for t in (1, 2, 5, 10, 20, 30)}, found[30])
