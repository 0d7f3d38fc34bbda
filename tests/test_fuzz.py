"""Replies, ledgers and files that nobody has thought of: whatever they hold, every exception is one of the project's.

Each test ends by itself, and all of them together take half a minute.
"""

import hashlib
import json
import sqlite3
import tempfile
import time
from contextlib import closing
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, Metadata, MetricRecord, RecordDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aoi_fl.client import poll_schedule, session
from aoi_fl.client.device.receipts import read_receipts
from aoi_fl.client.gate.book import GATE, RECEIPTS, Book
from aoi_fl.client.state import StateFile
from aoi_fl.protocol import Bid, Introduction, ParticipationReply, ParticipationRequest, packing
from aoi_fl.report import page, site
from aoi_fl.report.runs import load
from aoi_fl.report.summary_card import glance
from aoi_fl.science.errors import AoiError
from aoi_fl.server.ledger import Ledger
from aoi_fl.server.resume import check_simulated, recorded_run, take_up
from aoi_fl.strategies.validation import Refused, check_metrics, read_answer, read_record, read_update
from tests.report.test_malformed_ledgers import play

pytestmark = pytest.mark.slow
SECONDS, BATCH = 6, 50  # of each test, and examples between two looks at the time
MODEL = {"w": np.zeros((2, 3), np.float32), "b": np.zeros(2), "steps": np.array(3)}


def fuzzed(*given_, most=3000):
    """Run a check on batches of examples, until there are enough or the time is over; a failure is shrunk."""

    def run(check):
        @settings(
            max_examples=BATCH,
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
        @given(st.tuples(*given_))
        def batch(values):
            check(*values)

        end = time.monotonic() + SECONDS
        for _ in range(most // BATCH):
            if time.monotonic() < end:
                batch()

    return run


# Values ------------------------------------------------------------------------------------------------------------

numbers = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([0, 1, -1, 10**9])
)
texts = st.one_of(st.text(max_size=20), st.sampled_from(["loss", "num-examples", "train_loss", "\x00", "a" * 300]))
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, st.integers(-(10**30), 10**30), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=8,
)
columns = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=12), st.binary(max_size=12)
)
# Replies ----------------------------------------------------------------------------------------------------------


@st.composite
def arrays(draw):
    """Draw an array: as Flower writes it, or its parts forged."""
    dtype = draw(st.sampled_from(["<f4", "<f8", "<i8", "|u1", "|b1", "<f2", "<c8", "<U3", "|S2", "<M8[s]", "|O"]))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    array = Array(np.zeros(shape, "<f4" if dtype == "|O" else dtype))
    blob = bytearray(array.data)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, max(len(blob) - 1, 0)))
        blob[at : at + 1] = draw(st.binary(max_size=4))
    array.data = bytes(blob)
    array.dtype = draw(st.one_of(st.just(array.dtype), st.text(max_size=5)))
    array.shape = draw(st.one_of(st.just(array.shape), st.lists(st.integers(-3, 2**40), max_size=4)))
    array.stype = draw(st.one_of(st.just(array.stype), st.text(max_size=5)))
    return array


metric = st.one_of(st.integers(-(2**62), 2**62), st.floats(), st.lists(st.floats(), max_size=3))
setting = st.one_of(
    metric, st.booleans(), st.text(max_size=9), st.binary(max_size=9), st.lists(st.text(max_size=5), max_size=3)
)
RECORDS = (ParticipationReply, Bid, Introduction, ParticipationRequest)
KNOWN = {field.name.replace("_", "-") for kind in RECORDS for field in fields(kind)}
names = st.one_of(st.text(max_size=8), st.sampled_from([*MODEL, "loss", "scales", "compression", *sorted(KNOWN)]))
records = st.one_of(
    st.dictionaries(names, arrays(), max_size=4).map(ArrayRecord),
    st.dictionaries(names, metric, max_size=5).map(MetricRecord),
    st.dictionaries(names, setting, max_size=8).map(ConfigRecord),
)
contents = st.dictionaries(
    st.one_of(st.text(max_size=6), st.sampled_from(["arrays", "metrics", "aoi"])), records, max_size=4
)


def reply_of(content):
    return Message(content, metadata=Metadata(1, "a", 1, 2, "b", "", time.time(), 60.0, "train"))


def judged(reply):
    model = ArrayRecord({name: Array(array) for name, array in MODEL.items()})
    readers = [lambda: read_answer(reply), lambda: check_metrics(reply, "num-examples")]
    readers += [lambda kind=kind: read_record(reply, kind) for kind in RECORDS]
    readers += [
        lambda kind=kind: read_update(reply, model, "num-examples", kind) for kind in (None, "int8", "float16", "sign")
    ]
    readers.append(lambda: read_update(reply, model, "num-examples", opaque=True))
    for read_ in readers:
        try:
            read_()
        except Refused as reason:
            assert len(str(reason)) <= 500 and str(reason).isprintable()


rows = st.tuples(
    names,
    st.sampled_from(["float32", "", "|O"]),
    st.lists(st.integers(-1, 2**70), max_size=2),
    texts,
    st.integers(-9, 200),
)
kept = st.tuples(names, st.just("arrays"), st.lists(rows, max_size=3))
named = st.tuples(names, st.sampled_from(["config", "metrics", "arrays", ""]), st.integers(-9, 200))
layouts = st.one_of(st.lists(st.one_of(kept, named), max_size=3), json_values)


def test_replies():
    @fuzzed(contents, st.one_of(st.none(), layouts.map(json.dumps), texts), st.integers(0, 300), texts, most=3000)
    def fuzz(content, layout, cut, more):
        judged(reply_of(RecordDict(content)))
        whole = packing.pack(before := RecordDict(content))
        if whole is not before:
            if layout is not None:
                whole["aoi"]["packed"] = layout
            data = whole["aoi"]["data"]
            whole["aoi"]["data"] = data[: len(data) - cut] + more.encode()
        try:
            judged(reply_of(packing.unpack(whole)))
        except packing.PackingError as error:
            assert len(str(error)) > 10


# Ledgers ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole():
    with tempfile.TemporaryDirectory() as folder:
        yield (play(Path(folder) / "run") / "ledger.sqlite").read_bytes()


TABLES = {
    "run": "key value",
    "clients": "client name since examples payment sensitivity data_age",
    "rounds": "round started seconds asked trained spent clock test_loss test_accuracy empty",
    "participations": "round client name outcome age weight refreshed payment next_round reason",
}
cells = st.sampled_from([(table, column) for table, names in TABLES.items() for column in names.split()]).flatmap(
    lambda cell: st.tuples(
        st.just(f"UPDATE OR REPLACE {cell[0]} SET {cell[1]} = ?1 WHERE ?2 OR rowid = 2"),
        st.tuples(columns, st.booleans()),
    )
)
notes = st.tuples(
    st.just("INSERT OR REPLACE INTO run VALUES (?1, ?2)"),
    st.tuples(
        st.sampled_from(["config", "policy", "status", "since", "reason", "run", "initial_loss", "token"]),
        st.one_of(json_values.map(json.dumps), st.text(max_size=9)),
    ),
)
IN_RUN = {
    "config": "policy num-clients num-server-rounds until dataset seed clock",
    "policy": "budget total_budget clients per_round probabilities rates kind jitter index",
}
inner = st.sampled_from([(table, key) for table, keys in IN_RUN.items() for key in keys.split()]).flatmap(
    lambda place: st.tuples(
        st.just(f"UPDATE run SET value = json_set(value, '$.\"{place[1]}\"', json(?1)) WHERE key = '{place[0]}'"),
        st.tuples(json_values.filter(lambda value: "Infinity" not in json.dumps(value)).map(json.dumps)),
    )
)
rows = st.sampled_from(
    [
        "DELETE FROM rounds WHERE round > 2",
        "DELETE FROM clients",
        "DELETE FROM participations",
        "DELETE FROM run",
        "UPDATE rounds SET round = round * 7",
        "UPDATE participations SET client = client + 5",
        "DROP TABLE clients",
        "ALTER TABLE rounds RENAME COLUMN seconds TO other",
        "ALTER TABLE clients RENAME COLUMN name TO other",
    ]
).map(lambda statement: (statement, ()))
changes = st.lists(st.one_of(cells, cells, notes, inner, rows), min_size=1, max_size=3)


def read_by_all(folder):
    """Have every reader read a run; an exception that is not the project's ends the test."""

    def resumed():
        recorded_run(folder), check_simulated(folder)
        opened = Ledger(folder / "ledger.sqlite")
        with closing(opened):
            take_up(folder, opened)

    for reader in (lambda: page.render([load(folder, "run")]), lambda: glance(folder), resumed):
        try:
            reader()
        except AoiError as error:
            str(error).encode(errors="replace")
    client = TestClient(site.application(str(folder)))
    for path in ("content", "wall/content", "metrics"):
        assert client.get(f"/{path}").status_code == 200


def laid(folder, blob):
    path = Path(folder) / "run/ledger.sqlite"
    path.parent.mkdir()
    path.write_bytes(blob)
    return path


def test_ledgers_with_other_contents(whole):
    @fuzzed(changes, most=400)
    def fuzz(statements):
        with tempfile.TemporaryDirectory() as folder:
            path = laid(folder, whole)
            with closing(sqlite3.connect(path)) as db:
                for statement, values in statements:
                    try:
                        db.execute(statement, values)
                    except (sqlite3.Error, UnicodeError):
                        continue  # SQLite does not take it
                db.commit()
            read_by_all(path.parent)


# Files of clients -------------------------------------------------------------------------------------------------

AGE = {"last": 3, "before": None, "forced": False, "reserved": None}
BODY = {"version": 1, "seed": 7, "age": AGE, "data": None, "turn": None, "token": None}


def test_state_files():
    values = st.dictionaries(st.sampled_from([*BODY, "other"]), json_values, max_size=3)
    ages = st.dictionaries(st.sampled_from([*AGE, "other"]), json_values, max_size=3)
    blobs = st.one_of(
        st.binary(max_size=200),
        json_values.map(lambda value: json.dumps(value).encode()),
        st.tuples(values, ages).map(lambda both: BODY | {"age": AGE | both[1]} | both[0]),
    )

    @fuzzed(blobs, st.binary(max_size=60), json_values, most=3000)
    def fuzz(blob, line, value):
        if isinstance(blob, dict):
            checksum = hashlib.sha256(json.dumps(blob, sort_keys=True).encode()).hexdigest()
            blob = json.dumps(blob | {"checksum": checksum}).encode()
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            (place / "pi.json").write_bytes(blob)
            state = StateFile(place, "pi").load(5)
            assert type(state.seed) is int
            (place / session.FILE).write_bytes(line)
            assert 0 <= session.Session(place / session.FILE).until < 2**33
            (place / "nap").write_bytes(json.dumps(value).encode())
            told = poll_schedule.laid_down(place / "nap")
            assert told is None or type(told[1]) is int
            (place / GATE).write_bytes(blob)
            (place / RECEIPTS).write_bytes(json.dumps(value).encode() + b"\n" + line + b"\n" + blob)
            assert read_receipts(Book(place))[1]
