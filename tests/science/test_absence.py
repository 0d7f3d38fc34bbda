"""Participation of clients that come and go, against the stationary law of client and presence together."""

import math
from collections import Counter

import numpy as np
import pytest

from aoi_fl.science.absence import absent_table, achievable, stride_rates
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.participation import SystematicRule
from aoi_fl.science.presence import Presence
from aoi_fl.science.rates import exact
from aoi_fl.science.simulate import simulate
from aoi_fl.science.strides import Strides
from tests.science.populations import equals, stationary

RATES = [0.05, 0.15, 1 / 3, 0.4, 0.9, 1.0]
CHAINS = [(0.1, 0.1), (0.5, 0.5), (0.5, 0.05), (0.9, 0.9), (0.2, 0.01), (0.97, 0.3)]  # share a, returning b


def presence_chain(share, returning):
    """Return P(there next | away, there), with presence's share as given."""
    return np.array([returning, 1 - returning * (1 - share) / share])


def rate_of(start, step):
    """Return how often a chain takes part; ``step`` returns its chance in a state, and the chances of the next."""
    chain, found = {}, [start]
    while found:
        if (state := found.pop()) not in chain:
            chain[state] = step(state)
            found += chain[state][1]
    matrix = np.array([[follows.get(after, 0.0) for after in chain] for _, follows in chain.values()])
    return stationary(matrix) @ [takes for takes, _ in chain.values()]


def markov_rate(table, share, returning):
    """Return how often a client takes part: the law of (age, there), age as at the start of a round."""
    there = presence_chain(share, returning)

    def step(state):
        age, here = state
        p, older, follows = table[age] * here, min(age + 1, len(table) - 1), Counter()
        for after, chance in ((1, there[here]), (0, 1 - there[here])):
            follows[0, after] += p * chance
            follows[older, after] += (1 - p) * chance
        return p, follows

    return rate_of((0, 1), step)


def systematic_rate(rate, share, returning):
    """Return how often a client takes part: the law of (round within its cycle, there, owing a participation)."""
    b, there = exact(rate).denominator, presence_chain(share, returning)
    strides = Strides(np.array([rate]), np.array([0.0]))

    def step(state):
        t, here, owing = state
        due = owing or bool(strides.last_start(t)[0] == t)
        presence = ((1, there[here]), (0, 1 - there[here]))
        return due and here, {((t + 1) % b, after, due and not here): chance for after, chance in presence}

    return rate_of((0, 1, False), step)


@pytest.mark.parametrize(("share", "returning"), CHAINS)
def test_a_table_achieves_its_rate_or_all_that_presence_allows(share, returning):
    for rate in RATES:
        table = absent_table(rate, share, returning)
        assert markov_rate(table, share, returning) == pytest.approx(min(rate, share), rel=1e-9)
        assert achievable(np.array([rate]), np.array([share]))[0] == min(rate, share)


@pytest.mark.parametrize(("share", "returning"), CHAINS)
@pytest.mark.parametrize("rate", [0.05, 0.15, 0.4, 0.9])
def test_a_systematic_rate_achieves_the_target(rate, share, returning):
    asked = float(stride_rates(np.array([rate]), np.array([share]), np.array([returning]))[0])
    if rate >= share:
        assert asked == 1.0
        return
    # The oracle needs a short cycle: between two such rates the rate achieved is linear, as long as both have the same
    # two lengths of strides.
    length = math.floor(1 / asked)
    low, high = 1 / (length + 1), 1 / length
    achieved = [systematic_rate(r, share, returning) for r in (low, high)]
    assert achieved[0] <= rate <= achieved[1] + 1e-12
    assert asked == pytest.approx(low + (rate - achieved[0]) / (achieved[1] - achieved[0]) * (high - low), rel=1e-9)


@pytest.mark.parametrize("make", [MarkovPolicy, SystematicRule], ids=["markov", "systematic"])
@pytest.mark.parametrize(("share", "returning"), [(0.4, 0.4), (0.5, 0.05)])
def test_learning_achieves_the_rates(make, share, returning):
    there, rng = presence_chain(share, returning), np.random.default_rng(3)
    here = [rng.random(300) < share]
    for _ in range(1600):
        here.append(rng.random(300) < there[here[-1].astype(int)])
    policy = make.learning(np.repeat([0.1, 0.25, 0.8], 100))
    history = simulate(policy, equals(300), 1600, 3, availability=here.__getitem__)
    late = np.bincount(history.members[history.offsets[800] :], minlength=300)
    assert late.reshape(3, -1).mean(axis=1) / 800 == pytest.approx([0.1, 0.25, share], rel=0.05)


def noted(rounds):
    presence = Presence()
    for here in rounds:
        presence.note(np.asarray(here, bool))
    return presence


def test_counts_by_hand(monkeypatch):
    monkeypatch.setattr("aoi_fl.science.presence._KEPT", 1.0)
    presence = noted([[1, 0, 1], [1, 1, 0], [1, 0, 0], [0, 1, 0]])
    assert presence.share.tolist() == [4 / 5, 3 / 5, 2 / 5]
    assert presence.returning.tolist() == [1 / 2, 3 / 4, 1 / 4]  # after 0, 2 and 2 rounds away: 0, 2 and 0 returns
    assert presence.of(1) == (3 / 5, 3 / 4)
    assert presence.staying.tolist() == [3 / 4, 1 / 2, 1 / 2]  # after 3, 1 and 1 rounds there: 2, 0 and 0 stays


def test_newcomers_and_memory():
    presence = noted([[1, 0], [1, 1]])
    presence.note(np.array([True, True, False]))
    assert len(presence.share) == 3 and presence.rounds[2] == 1
    again = Presence()
    again.load_state_dict(presence.state_dict())
    assert again.share.tolist() == presence.share.tolist() and again.before.tolist() == [1, 1, 0]
