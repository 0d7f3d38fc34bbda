import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoi_fl.science import draws
from aoi_fl.science.selection import OldestAgeSelector, ProportionalSelector, RandomSelector
from tests.science.populations import population


def aged(ages, sizes=None, available=None):
    sizes = [1] * len(ages) if sizes is None else sizes
    return population(sizes, available, ages=np.array(ages, np.int64))


@st.composite
def populations(draw):
    n = draw(st.integers(0, 30))
    column = lambda values: draw(st.lists(values, min_size=n, max_size=n))  # noqa: E731
    return aged(column(st.integers(0, 10**7)), column(st.integers(1, 10**6)), column(st.booleans()))


@given(who=populations(), k=st.integers(1, 12), round_=st.integers(1, 99))
@settings(max_examples=80, deadline=None)
def test_proportional_draws_are_of_available_clients(who, k, round_):
    selection = ProportionalSelector(k, 5).select(round_, who)
    assert np.all(np.diff(selection.clients) > 0) and who.available[selection.clients].all()
    assert selection.draws.sum() == k * who.available.any() and np.all(selection.draws > 0)
    assert np.array_equal(selection.weights, selection.draws / k)


@given(who=populations(), k=st.integers(1, 12), round_=st.integers(1, 99))
@settings(max_examples=80, deadline=None)
def test_oldest_age_and_random_against_a_full_sort(who, k, round_):
    u = draws.uniforms(5, round_, "select", len(who.ages))
    reachable = np.flatnonzero(who.available).tolist()
    oldest = OldestAgeSelector(k, 5).select(round_, who)
    assert oldest.clients.tolist() == sorted(sorted(reachable, key=lambda i: (-who.ages[i], u[i]))[:k])
    random = RandomSelector(k, 5).select(round_, who)
    assert random.clients.tolist() == sorted(sorted(reachable, key=lambda i: u[i])[:k])
    sizes = who.sizes[random.clients]
    assert random.weights * sizes.sum() == pytest.approx(sizes)
    assert oldest.draws.tolist() == random.draws.tolist() == [1] * len(sizes)
    assert oldest.weights * len(sizes) == pytest.approx(oldest.draws)


def test_clients_without_examples_get_no_weight():
    who = aged([0, 0, 0], sizes=[0, 3, 0])
    for make in (RandomSelector, ProportionalSelector):
        assert make(2, 1).select(1, who).clients.tolist() == [1]
        assert make(2, 1).select(1, aged([0], sizes=[0])).clients.tolist() == []


def test_proportional_weights_follow_theorem_4():
    sizes, k, rounds = np.array([1, 2, 3, 10, 24]), 4, 6000
    q = sizes / sizes.sum()
    weights = np.zeros((rounds, len(sizes)))
    for t in range(rounds):
        selection = ProportionalSelector(k, 2).select(t + 1, aged([0] * 5, sizes))
        weights[t, selection.clients] = selection.weights
    error = 4 * np.sqrt(q * (1 - q) / k / rounds)
    assert np.all(np.abs(weights.mean(axis=0) - q) < error)
    squares = ((weights - q) ** 2).sum(axis=1)  # independent between rounds, each of mean Σ
    assert abs(squares.mean() - (q * (1 - q)).sum() / k) < 4 * squares.std() / np.sqrt(rounds)
