"""A client that has reserved a round too late to be heard in time may sleep until then: its word holds all the same."""

import pytest

from aoi_fl.strategies.round import run
from tests.strategies.test_backoff import ASK, HELLO, POLICIES, TRAIN, N, play, scripted

ROUNDS = 12


def trained(notes, client):
    return [
        r.round for r in notes.rounds if any((p.client, p.outcome) == (client, "trained") for p in r.participations)
    ]


def asked(grid, client):
    return [round_ for kind, round_, who in grid.sent if (kind, who) == (ASK, client)]


@pytest.mark.parametrize("wire", ["poll", "reserve"])
@pytest.mark.parametrize("kind", [ASK, HELLO])
def test_a_late_first_answer_is_asked_again_under_poll(kind, wire, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "uploads", lambda grid: kind == HELLO)  # then the greeting is the question
    awaited, (prompt,) = play(POLICIES[wire], tmp_path / "in time", scripted(), ROUNDS)
    (client, first) = next((who, when[0]) for who in range(N) if (when := trained(awaited, who)) and when[0] > 1)
    late, (grid,) = play(POLICIES[wire], tmp_path / "late", scripted(**{f"c{client}": (kind, 1, 1, 1)}), ROUNDS)
    assert trained(late, client) == trained(awaited, client) and first in trained(late, client)
    if wire == "reserve":
        assert asked(grid, client) == asked(prompt, client) == ([1] if kind == ASK else [])
    else:
        assert asked(grid, client) == list(range(1 + (kind == HELLO), ROUNDS + 1))


def test_a_late_update_still_announces_the_next_round(tmp_path):
    awaited, _ = play(POLICIES["reserve"], tmp_path / "in time", scripted(), ROUNDS, evaluate_clients=N)
    client, when = next((who, when) for who in range(N) if len(when := trained(awaited, who)) > 2)
    assert when[1] > when[0] + 1
    script = scripted(**{f"c{client}": (TRAIN, when[0], when[0], 1)})
    late, (grid,) = play(POLICIES["reserve"], tmp_path / "late", script, ROUNDS, evaluate_clients=N)
    assert trained(late, client) == when[1:] and asked(grid, client) == [1]


def test_a_round_that_is_past_is_no_word_to_keep(tmp_path):
    awaited, _ = play(POLICIES["reserve"], tmp_path / "in time", scripted(), ROUNDS)
    client = next(p.client for p in awaited.rounds[0].participations if p.outcome == "trained")
    late, (grid,) = play(POLICIES["reserve"], tmp_path / "late", scripted(**{f"c{client}": (ASK, 1, 1, 1)}), ROUNDS)
    assert asked(grid, client)[:2] == [1, 2] and trained(late, client)
