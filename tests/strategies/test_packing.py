"""Packed models in a federation: the same run, bit for bit, and a bad packed reply names its client."""

import copy
import json
from dataclasses import replace

import pytest
from flwr.app import ConfigRecord

from aoi_fl import protocol
from aoi_fl.engine.local import LocalGrid
from aoi_fl.protocol import packing
from aoi_fl.strategies import RandomSelection
from aoi_fl.strategies.round import exchange
from tests.fakes import HOSTILE
from tests.golden import runs as golden
from tests.strategies.test_compression import App, Listening, play


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
    assert golden.play(row, "evaluating", tmp_path).lines == {int(n): line for n, line in expected.items()}


def test_packing_none_and_older_clients_get_each_array(tmp_path, far):
    class Former(App):
        def __call__(self, message, context):
            reply = super().__call__(message, context)
            if message.metadata.message_type == protocol.HELLO and context.node_config["partition-id"] == HOSTILE:
                own = dict(reply.content[protocol.AOI])
                assert own.pop("packing") == packing.FORM
                reply.content[protocol.AOI] = ConfigRecord(own)
            return reply

    notes, grid = play(tmp_path / "former", "none", app=Former(), grid=Spy)
    assert sorted(grid.down[:4]) == ["packed"] * 3 + ["plain"] and all(r.trained == 4 for r in notes.rounds)
    _, grid = play(tmp_path / "none", "none", grid=Spy, make=plainly)
    assert set(grid.down) == {"plain"} == set(grid.up)


def plainly(clients, options, **more):
    return RandomSelection(clients, options=replace(options, packing=packing.NONE), **more)


def layout(change):
    """Return what changes the rows of a packed reply's arrays: name, type, shape, format and length each."""

    def spoil(reply):
        rows = json.loads(reply.content[protocol.AOI]["packed"])
        (model,) = (row for row in rows if row[1] == "arrays")
        model[2] = change(model[2])
        reply.content[protocol.AOI]["packed"] = json.dumps(rows)

    return spoil


def no_layout(reply):
    del reply.content[protocol.AOI]["packed"]


def as_sent(reply):
    reply.content = packing.unpack(reply.content)


SPOILS = {
    "slices moved": layout(lambda rows: [[*r[:4], r[4] + d] for r, d in zip(rows, (8, -8, 0), strict=True)]),
    "no layout": no_layout,
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_a_bad_packed_reply_names_its_client_alone(spoil, tmp_path, far):
    notes, _ = play(tmp_path, "none", app=App(spoil), rounds=1)
    (record,) = notes.rounds
    assert {p.client: p.outcome for p in record.participations if p.outcome != "trained"}.keys() == {HOSTILE}
    assert (record.trained, record.dropped) == (3, 1)


def test_an_unpacked_reply_to_a_packed_message_counts(tmp_path, far):
    notes, _ = play(tmp_path, "int8", app=App(as_sent), rounds=2)
    assert [record.trained for record in notes.rounds] == [4, 4]
