"""Packed models: what goes in comes out bit for bit, and a layout that does not fit is refused."""

import json

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from hypothesis import given, settings
from hypothesis import strategies as st

from aoi_fl import protocol
from aoi_fl.protocol import packing
from aoi_fl.protocol.arrays import to_record
from aoi_fl.protocol.packing import PackingError, pack, packed, unpack

ODD = {
    "scalar": np.array(1.5, np.float32), "none": np.zeros((0, 3), np.float16), "mask": np.array([[True], [False]]),
    "steps": np.array(3), "wide": np.array([np.nan, -0.0, 5e-324]),
    "bfloat16": np.array([1, 2, 65535], np.uint16).view("V2"),
    "columns": np.asfortranarray(np.arange(6, dtype=np.int8).reshape(2, 3)), "swapped": np.arange(3, dtype=">i8"),
    "complex": np.array([1j]), "": np.arange(2, dtype=np.uint64),
}  # fmt: skip


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


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_a_content_comes_back_bit_for_bit(content):
    before = form(content)
    there = pack(content)
    arrays = [a for record in there.values() if isinstance(record, ArrayRecord) for a in record.values()]
    assert len(arrays) == any(isinstance(record, ArrayRecord) for record in content.values())
    assert form(unpack(there)) == before == form(content)


@given(st.dictionaries(st.text(), st.tuples(st.sampled_from("?bHiqefdF"), st.lists(st.integers(0, 3), max_size=3))))
@settings(max_examples=20, deadline=None)
def test_any_model_comes_back_bit_for_bit(forms):
    rng = np.random.default_rng(0)
    arrays = {
        name: np.frombuffer(rng.bytes(int(np.prod(shape)) * np.dtype(kind).itemsize), kind).reshape(shape)
        for name, (kind, shape) in forms.items()
    }
    content = content_of(arrays=to_record(arrays))
    assert form(unpack(pack(content))) == form(content)


def test_messages_of_one_model_share_its_bytes():
    model = to_record(ODD)
    messages = [Message(content_of(arrays=model), node, "train") for node in (1, 2, 3)]
    before = [message.content for message in messages]
    with packed(messages, {1, 3}):
        one, plain, other = (message.content["arrays"] for message in messages)
        assert one is other and len(one) == 1 and plain is model
        assert [packing.is_packed(message) for message in messages] == [True, False, True]
    assert all(message.content is content for message, content in zip(messages, before, strict=True))


ROW = ["w", "float32", [2], "numpy.ndarray", 4]
LAYOUTS = {
    "a name twice": [[ROW, ROW]],
    "beyond the bytes": [[ROW, ["b", "float32", [2], "numpy.ndarray", 5]]],
    "less than the bytes": [[ROW]],
    "a length below 0": [[["w", "float32", [2], "numpy.ndarray", 9], ["b", "float32", [2], "numpy.ndarray", -1]]],
    "a length that is true": [[["w", "float32", [2], "numpy.ndarray", True], ["b", "f4", [2], "numpy.ndarray", 7]]],
    "a fraction": [[["w", "float32", [2], "numpy.ndarray", 8.0]]],
    "an axis below 0": [[["w", "float32", [-2], "numpy.ndarray", 8]]],
    "a type that is none": [[["w", 4, [2], "numpy.ndarray", 8]]],
    "a row too short": [[ROW[:4]]],
    "no rows": [3],
    "one record too many": [[ROW], [ROW]],
}
TEXTS = {name: json.dumps(dict(zip(("arrays", "more"), rows, strict=False))) for name, rows in LAYOUTS.items()} | {
    "another record": json.dumps({"other": [["w", "float32", [2], "numpy.ndarray", 8]]}),
    "a record twice": '{"arrays": [["w","float32",[2],"x",8]], "arrays": [["w","float32",[2],"x",8]]}',
    "a list": "[]",
    "nothing": "",
    "no JSON": "{",
    "a nest": "[" * 100_000,
    "a number": 7,
    "bytes": b"{}",
    "too long": '{"arrays": [' + " " * (1 << 20) + "]}",
    "an unusual number": '{"arrays": [["w","float32",[2],"x",' + "9" * 5000 + "]]}",
}


@pytest.mark.parametrize("layout", TEXTS.values(), ids=TEXTS)
def test_a_layout_that_does_not_fit_is_refused(layout):
    content = pack(RecordDict({"arrays": ArrayRecord({"w": Array("float32", (2,), "numpy.ndarray", bytes(8))})}))
    assert len(unpack(content)["arrays"]["w"].data) == 8
    content[protocol.AOI] = ConfigRecord({"packed": layout})
    with pytest.raises(PackingError):
        unpack(content)


def test_a_layout_beside_plain_arrays_is_refused():
    content = pack(content_of(arrays=to_record({"w": np.ones(2)})))
    content["arrays"] = to_record({"w": np.ones(2)})
    with pytest.raises(PackingError):
        unpack(content)
