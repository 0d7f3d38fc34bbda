"""Packed models: what goes in comes out bit for bit, and a layout that does not fit is refused."""

import json

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from aoi_fl import protocol
from aoi_fl.protocol import packing
from aoi_fl.protocol.arrays import to_record
from aoi_fl.protocol.packing import PackingError, pack, packed, unpack

ODD = {
    "scalar": np.array(1.5, np.float32),
    "none": np.zeros((0, 3), np.float16),
    "mask": np.array([[True], [False]]),
    "steps": np.array(3),
    "wide": np.array([np.nan, -0.0, 5e-324]),
    "bfloat16": np.array([1, 2, 65535], np.uint16).view("V2"),
    "columns": np.asfortranarray(np.arange(6, dtype=np.int8).reshape(2, 3)),
    "swapped": np.arange(3, dtype=">i8"),
    "complex": np.array([1j]),
    "": np.arange(2, dtype=np.uint64),
}


def content_of(**records) -> RecordDict:
    return RecordDict({"config": ConfigRecord({"lr": 0.1}), **records, protocol.AOI: ConfigRecord({"round": 3})})


def form(content: RecordDict) -> list:
    """Return all that a content holds, in its order."""
    return [
        (key, [(name, a.dtype, tuple(a.shape), a.stype, a.data) for name, a in record.items()])
        if isinstance(record, ArrayRecord)
        else (key, type(record), dict(record))
        for key, record in content.items()
    ]


CONTENTS = {
    "odd arrays": content_of(arrays=to_record(ODD)),
    "two models": content_of(arrays=to_record(ODD), other=to_record({"w": np.ones(2)})),
    "an empty model": content_of(arrays=ArrayRecord()),
    "another format": content_of(arrays=ArrayRecord({"x": Array("bits", (7,), "own.format", b"\x00\xff")})),
    "no record of ours": RecordDict({"arrays": to_record(ODD), "metrics": MetricRecord({"n": 1})}),
    "no arrays": content_of(),
}


@pytest.fixture(params=[1 << 20, 7], ids=["inside", "beside"])
def inside(request, monkeypatch):
    monkeypatch.setattr(packing, "_INSIDE", request.param)
    return request.param


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_a_content_comes_back_bit_for_bit(content, inside):
    before = form(content)
    there = pack(content)
    size = sum(len(array.data) for record in content.array_records.values() for array in record.values())
    assert len(there) == 1 + (size > inside) and there is not content
    assert form(unpack(there)) == before == form(content)
    received = RecordDict(dict(reversed(there.items())))
    assert form(unpack(received)) == before


def test_a_single_record_without_arrays_stays_as_it_is():
    content = RecordDict({protocol.AOI: ConfigRecord({"round": 3})})
    assert pack(content) is content is unpack(content)


def test_messages_of_one_model_share_its_bytes(inside):
    model, size = to_record(ODD), sum(len(array.data) for array in to_record(ODD).values())
    messages = [Message(content_of(arrays=model), node, "train") for node in (1, 2, 3)]
    messages.append(Message(messages[0].content, 4, "train"))
    before = [message.content for message in messages]
    with packed(messages, {1, 3, 4}):
        one, plain, other, same = (message.content for message in messages)
        assert one is same and plain["arrays"] is model
        assert one.get("arrays") is other.get("arrays")
        assert ("arrays" in one) == (len(one[protocol.AOI]["data"]) < size) == (size > inside)
        assert [packing.is_packed(message) for message in messages] == [True, False, True, True]
        assert form(unpack(one)) == form(plain) == form(unpack(other))
    assert all(message.content is content for message, content in zip(messages, before, strict=True))


def test_the_copies_of_a_model_in_our_records_have_few_bytes(monkeypatch):
    model = to_record({"w": np.ones(2)})
    monkeypatch.setattr(packing, "_INSIDE", 3 * len(model["w"].data))
    messages = [Message(content_of(arrays=model), node, "train") for node in range(4)]
    with packed(messages, {0, 1, 2}):
        assert [len(message.content) for message in messages] == [1, 1, 1, 3]
    with packed(messages, {0, 1, 2, 3}):
        assert [len(message.content) for message in messages] == [2] * 4


W = ["w", "float32", [2], "numpy.ndarray", 8]
LAYOUTS = {
    "an array's name twice": [["arrays", "arrays", [[*W[:4], 4], [*W[:4], 4]]]],
    "a record's name twice": [["arrays", "arrays", [[*W[:4], 4]]], ["arrays", "arrays", [[*W[:4], 4]]]],
    "beyond the bytes": [["arrays", "arrays", [[*W[:4], 9]]]],
    "fewer bytes": [["arrays", "arrays", [[*W[:4], 7]]]],
    "a length below 0": [["arrays", "arrays", [[*W[:4], 9], ["b", *W[1:4], -1]]]],
    "an axis below 0": [["arrays", "arrays", [["w", "float32", [-2], "numpy.ndarray", 8]]]],
    "another kind": [["arrays", "context", 8]],
    "a record of -1 bytes": [["config", "config", -1], ["arrays", "arrays", [[*W[:4], 9]]]],
    "no list": {"arrays": [W]},
}
TEXTS = {name: json.dumps(rows) for name, rows in LAYOUTS.items()} | {
    "a nest": "[" * 100_000,
    "too long": "[" + " " * (1 << 20) + "]",
}


@pytest.mark.parametrize("layout", TEXTS.values(), ids=TEXTS)
def test_a_layout_that_does_not_fit_is_refused(layout):
    content = pack(RecordDict({"arrays": ArrayRecord({"w": Array("float32", (2,), "numpy.ndarray", bytes(8))})}))
    assert len(unpack(content)["arrays"]["w"].data) == 8
    content[protocol.AOI]["packed"] = layout
    with pytest.raises(PackingError):
        unpack(content)


def renamed(content):
    own = content[protocol.AOI]
    own["data"] = own["data"].replace(b"ConfigRecord", b"ConfigReport", 1)


OTHERS = {
    "a record more": lambda content: content.update(more=ConfigRecord({"data": b""})),
    "no array": lambda content: content.pop("arrays"),
    "another array": lambda content: content.update(arrays=to_record({"w": np.ones(2)})),
    "an array of another format": lambda content: setattr(content["arrays"]["packed"], "stype", "numpy.ndarray"),
    "metrics in place of the array": lambda content: content.update(arrays=MetricRecord({"data": 7})),
    "a number in place of bytes": lambda content: content[protocol.AOI].update(data=7),
    "a record that is none of Flower's": renamed,
}


@pytest.mark.parametrize("spoil", OTHERS.values(), ids=OTHERS)
def test_records_that_do_not_fit_are_refused(spoil, monkeypatch):
    monkeypatch.setattr(packing, "_INSIDE", 8)
    content = pack(content_of(arrays=to_record({"w": np.ones(2)})))
    assert list(content) == ["arrays", protocol.AOI] and len(unpack(content)) == 3
    spoil(content)
    with pytest.raises(PackingError):
        unpack(content)
