"""Late and lost replies: the round ends at its deadline with those that are there."""

import time
from functools import partial

import pytest

from aoi_fl.flower.messages import failure
from tests.fakes import HUNG, TRAIN, ScriptedGrid, everyone, expected, honest_app, play, same_model


def deaf(kind, round_, client):
    """Client 0 never answers the training message."""
    return HUNG if (kind, client) == (TRAIN, 0) else 0


class Lossy(ScriptedGrid):
    """A grid that accepts no message to train client 0."""

    def push_messages(self, messages):
        messages = list(messages)
        return [i for i, m in zip(super().push_messages(messages), messages, strict=True) if not deaf(*self._about(m))]


class Forgetful(ScriptedGrid):
    """A grid that forgets a message and its reply when the message's time is up, as a SuperLink does."""

    def pull_messages(self, message_ids):
        now = time.time()
        gone = [i for i in message_ids if (m := self._waiting.get(i)) and m.metadata.created_at + m.metadata.ttl <= now]
        lost = [failure(self._waiting.pop(i), "Message Unavailable") for i in gone]
        return lost + super().pull_messages([i for i in message_ids if i not in gone])


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("grid", [ScriptedGrid, Lossy, Forgetful])
def test_one_silent_client_costs_the_others_nothing(grid, deterministic, tmp_path):
    """In particular when replies wait their turn: those behind the silent client are there at the deadline."""
    begun = time.monotonic()
    notes = play(
        everyone,
        honest_app(),
        tmp_path,
        grid=partial(grid, script=deaf),
        rounds=1,
        deterministic=deterministic,
        train_timeout=0.3,
    )
    assert time.monotonic() - begun < 5
    same_model(notes.result.arrays, expected([1, 2, 3], 1))
    (late,) = [p for p in notes.parts if p.outcome != "trained"]
    assert (late.client, late.outcome) == (0, "late") and "deadline" in late.reason
