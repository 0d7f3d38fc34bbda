"""What is learned of who is there: counts by hand, and the law of a chain that is known."""

import numpy as np
import pytest

from aoi_fl.science.presence import WINDOW, Presence


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
    assert presence.staying.tolist() == [3 / 4, 1 / 2, 1 / 2]  # after 3, 1 and 1 rounds there: 2, 0 and 0 stays


def test_nothing_is_held_against_who_was_never_away():
    presence = noted(np.ones((300, 4)))
    assert presence.share.tolist() == [1.0] * 4 and presence.staying.tolist() == [1.0] * 4


def test_a_chain_is_learned_and_old_rounds_are_forgotten():
    rng, n, rounds = np.random.default_rng(4), 400, 2000
    there, presence = rng.random(n) < 0.25, Presence()
    for _ in range(rounds):
        there = np.where(there, rng.random(n) < 0.7, rng.random(n) < 0.1)  # share 0.1/(0.1 + 0.3)
        presence.note(there)
    assert presence.share.mean() == pytest.approx(0.25, abs=0.01)
    assert presence.returning.mean() == pytest.approx(0.1, abs=0.005)
    assert presence.staying.mean() == pytest.approx(0.7, abs=0.01)
    for _ in range(WINDOW):
        presence.note(np.ones(n, bool))
    assert presence.share.mean() == pytest.approx(1 - 0.75 * (1 - 1 / WINDOW) ** WINDOW, abs=0.02)


def test_newcomers_and_memory():
    presence = noted([[1, 0], [1, 1]])
    presence.note(np.array([True, True, False]))
    assert len(presence.share) == 3 and presence.rounds[2] == 1
    again = Presence.recalled(presence.state_dict())
    assert again.share.tolist() == presence.share.tolist() and again.before.tolist() == [1, 1, 0]
