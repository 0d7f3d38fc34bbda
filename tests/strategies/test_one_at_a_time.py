"""One update is in memory at a time, and they are added in client order."""

import gc
import pickle
import weakref

import pytest

from aoi_fl.server.engine.local import LocalGrid
from aoi_fl.strategies.round import collection
from aoi_fl.strategies.validation import read_update
from tests.fakes import MODEL, everyone, honest_app, play


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("compression", ["none", "int8"])
def test_of_replies_that_are_all_there_one_is_decoded_at_a_time(tmp_path, monkeypatch, deterministic, compression):
    """As a SuperLink does, the grid holds every reply in bytes before the first is pulled; each pull decodes."""
    messages = []
    updates = []
    alive = []  # messages with arrays, and arrays read from them, whenever there is a new one

    def note(kind, things):
        kind += map(weakref.ref, things)
        alive.append(tuple(sum(thing() is not None for thing in found) for found in (messages, updates)))

    class Stored(LocalGrid):
        def push_messages(self, messages):
            ids = list(super().push_messages(messages))
            self.stored = {i: pickle.dumps(reply) for i in ids for reply in super(Stored, self).pull_messages([i])}
            return ids

        def pull_messages(self, message_ids):
            replies = [pickle.loads(self.stored.pop(i)) for i in message_ids]
            for reply in replies:
                if "arrays" in reply.content:
                    note(messages, [reply.content["arrays"]])
            return replies

    def read_and_note(*arguments, **more):
        update = read_update(*arguments, **more)
        note(updates, update.arrays.values())
        return update

    monkeypatch.setattr(collection, "read_update", read_and_note)
    gc.disable()  # an update in a reference cycle stays
    try:
        options = {"deterministic": deterministic, "compression": compression}
        notes = play(everyone, honest_app(), tmp_path, grid=Stored, rounds=2, **options)
    finally:
        gc.enable()
    assert notes.column("trained") == [4, 4]
    assert alive == [(1, 0), (1, len(MODEL))] * 8
