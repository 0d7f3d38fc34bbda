"""Packed models in a federation: the same run, bit for bit, and a bad packed reply names its client."""

import copy
import json

import pytest

from aoi_fl import protocol
from aoi_fl.protocol import packing
from aoi_fl.server.engine.local import LocalGrid
from aoi_fl.strategies.round import exchange
from tests.fakes import HELLO, HOSTILE, everyone, honest_app, hostile_app, play, with_answer
from tests.golden import runs as golden
from tests.strategies.test_compression import Listening


class Spy(Listening):
    """A grid that notes of each message with a model whether it is packed, down and up."""

    def push_messages(self, messages):
        messages = list(messages)
        self.down = getattr(self, "down", []) + [form for m in messages if (form := form_of(m)) is not None]
        return super().push_messages(messages)

    def heard(self, reply, *about):
        if (form := form_of(reply)) is not None:
            self.up = [*getattr(self, "up", []), form]
        return super().heard(reply, *about)


def form_of(message):
    if packing.is_packed(message):
        return "packed"
    return "plain" if message.has_content() and message.content.array_records else None


@pytest.fixture
def far(monkeypatch):
    pack_in_this_process(monkeypatch)


def pack_in_this_process(monkeypatch):
    """Let grids of this process pack and keep what is pushed, as those over a network do."""
    push = LocalGrid.push_messages
    monkeypatch.setattr(exchange, "packs", lambda grid: True)
    monkeypatch.setattr(LocalGrid, "push_messages", lambda grid, messages: push(grid, list(map(copy.copy, messages))))


def test_a_packed_run_is_the_golden_one(tmp_path, far):
    row = "wics-bid"  # messages of every kind: packing knows no policies
    expected = json.loads((golden.HERE / "runs.json").read_text())[row]["evaluating"]
    assert golden.play(row, "evaluating", tmp_path)[1] == {int(n): line for n, line in expected.items()}


def test_packing_none_and_older_clients_get_each_array(tmp_path, far):
    notes = play(everyone, hostile_app(with_answer(packing=None), (HELLO,)), tmp_path / "former", grid=Spy)
    assert sorted(notes.grid.down[:4]) == ["packed"] * 3 + ["plain"] and all(r.trained == 4 for r in notes.rounds)
    notes = play(everyone, honest_app(), tmp_path / "none", grid=Spy, packing=packing.NONE)
    assert set(notes.grid.down) == {"plain"} == set(notes.grid.up)


def slices_moved(message, act):
    own = (reply := act()).content[protocol.AOI]
    rows = json.loads(own["packed"])
    (model,) = (row for row in rows if row[1] == "arrays")
    model[2] = [[*row[:4], row[4] + more] for row, more in zip(model[2], (8, -8, 0), strict=True)]
    own["packed"] = json.dumps(rows)
    return reply


@pytest.mark.parametrize("spoil", [slices_moved, with_answer(packed=None)], ids=["slices moved", "no layout"])
def test_a_bad_packed_reply_names_its_client_alone(spoil, tmp_path, far):
    notes = play(everyone, hostile_app(spoil), tmp_path, 1)
    assert notes.trained() == [[client for client in range(4) if client != HOSTILE]]
    assert notes.column("dropped") == [1]
