"""What goes over the wire comes back as it was, and nothing else comes through."""

import math

import pytest
from flwr.app import ConfigRecord
from hypothesis import given
from hypothesis import strategies as st

from aoi_fl.protocol import Bid, Introduction, ParticipationReply, ParticipationRequest

RECORDS = [
    ParticipationRequest("r", 3, "poll", (0.0, 0.25, 1.0), True, True, "whittle", 40.5),
    Introduction("pi-3", 7, 600, 2.5, 1.5, 12, 4),
    ParticipationReply("pi-3", False, 5, 19),
    Bid("pi-3", 1.25, 2.0, 3),
]


@pytest.mark.parametrize("record", RECORDS, ids=str)
def test_a_record_survives_flowers_own_record(record):
    assert type(record).read(ConfigRecord(record.write())) == record


def test_records_use_kebab_case_and_omit_missing_values():
    assert ParticipationReply("a", True, 2).write() == {"name": "a", "takes-part": True, "age": 2}


def test_integers_pass_as_floats_and_unknown_keys_are_ignored():
    bid = Bid.read({"name": "a", "bid": 1, "payment": 2, "age": 0, "colour": "red"})
    assert (bid.bid, type(bid.bid)) == (1.0, float)


@pytest.mark.parametrize(
    ("kind", "values", "words"),
    [
        (ParticipationReply, {"name": "a", "takes-part": True}, ["lacks", "age"]),
        (ParticipationReply, {"name": "a", "takes-part": True, "age": 1.0}, ["age is 1 (float)", "int"]),
        (ParticipationReply, {"name": "a", "takes-part": True, "age": -1}, ["age is -1"]),
        (ParticipationReply, {"name": "a" * 10**6, "takes-part": "a" * 10**6, "age": 0}, ["takes-part is 'aaa", "…"]),
        (Bid, {"name": "a", "bid": math.nan, "payment": 1.0, "age": 0}, ["bid is nan"]),
        (Bid, {"name": "a", "bid": 10**400, "payment": 1.0, "age": 0}, ["bid", "64 bits"]),
        (ParticipationRequest, {"run": "r", "round": 1, "table": [0.5, 10**400]}, ["table", "finite"]),
    ],
)
def test_what_is_wrong_is_named(kind, values, words):
    with pytest.raises(ValueError) as error:
        kind.read(values)
    assert all(word in str(error.value) for word in words)
    assert len(str(error.value)) < 300


anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.lists(st.floats() | st.integers())
)


@given(
    st.sampled_from([ParticipationRequest, Introduction, ParticipationReply, Bid]),
    st.dictionaries(st.sampled_from(["name", "run", "round", "age", "takes-part", "next-round", "bid"]), anything),
)
def test_whatever_a_peer_sends_is_a_record_or_a_value_error(kind, values):
    try:
        record = kind.read(values)
    except ValueError:
        return
    assert isinstance(record, kind)
    for number in vars(record).values():
        assert not isinstance(number, float) or math.isfinite(number)
