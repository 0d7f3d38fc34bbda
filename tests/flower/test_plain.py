"""Plain statements beside Flower's own methods: on equal databases, equal answers and equal tables."""

import ast
import copy
import re
import shutil
import sqlite3
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import attrgetter
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aoi_fl.flower import link_state, plain, transactions
from aoi_fl.flower.messages import send, sign
from aoi_fl.flower.seams import PLAIN
from aoi_fl.flower.versions import GRPC, SPOKEN
from tests.flower.objects import needs, running

pytestmark = needs(PLAIN)
NODES, MESSAGES, NONE = 4, 5, "0" * 64
ROOT = 7  # the object that is the first message itself
STRANGE = (
    {"run_id": 7},
    {"dst_node_id": 7},
    {"src_node_id": 7},
    {"ttl": 1e6},
    {"ttl": 0.0},
    {"created_at": 1.0},
    {"reply_to_message_id": "another"},
    {"message_id": "a" * 64},
    {"message_type": ""},
)

# Steps by name: a method of a state, or "" for one of World's, and the kinds of its arguments, which a step numbers.
CALLS = {
    "session": ("start_session", "run"),
    "store": ("store_object", "run", "session", "blob"),
    "get": ("get_object", "run", "part"),
    "register": ("object_store.preregister", "run", "tree"),
    "put": ("object_store.put", "blob"),
    "tree": ("object_store.get_object_tree", "part"),
    "delete": ("object_store.delete", "part"),
    "look": ("get_message_ins", "node", "limit"),
    "valid": ("get_valid_message_ins", "id"),
    "forget": ("delete_messages", "ids"),
    "key": ("get_node_id_by_public_key", "key"),
    "nodes": ("get_nodes", "run"),
    "activate": ("activate_node", "node", "seconds"),
    "beat": ("acknowledge_node_heartbeat", "node", "seconds"),
    "leave": ("deactivate_node", "node"),
    "runtime": ("add_clientapp_runtime", "run", "work"),
    "finish": ("finish_task", "end"),
    "clean": ("cleanup_run", "run"),
    "push": ("", "message", "session"),
    "upload": ("", "session", "run"),
    "strange": ("", "message", "change"),
    "replies": ("",),
    "info": ("", "asked"),
    "traffic": ("", "run", "bytes", "bytes"),
    "wait": ("", "pause"),
}


class World:
    """Two states on equal databases, Flower's own and one of plain statements, and what they are asked about."""

    def __init__(self, folder, monkeypatch):
        from flwr.app.message import message
        from flwr.server.superlink.linkstate import sql_linkstate, utils
        from flwr.server.utils import validator
        from flwr.supercore import date
        from flwr.supercore.corestate import sql_corestate

        self.start = self.now = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
        for module in (date, sql_corestate, sql_linkstate, utils, validator, message):
            monkeypatch.setattr(module, "now", lambda: self.now)
        for module in (sql_corestate, plain):
            monkeypatch.setattr(module, "uuid4", lambda: f"session {self.step}")
        self.paths, self.first = [folder / "flower.db", folder / "plain.db"], folder / "first.db"
        flowers = link_state.open_state(str(self.paths[0]), False)
        self._furnish(flowers)
        for copied in (self.first, self.paths[1]):
            shutil.copy(self.paths[0], copied)
        self.states = [flowers, link_state.open_state(str(self.paths[1]), True)]

    def _furnish(self, state):
        from flwr.common.constant import NOOP_FLWR_AID
        from flwr.proto.message_pb2 import ObjectTree

        (*self.runs,), tasks, _ = zip(*(running(state) for _ in range(2)), strict=True)
        self.nodes = [state.create_node("", "", b"key %d" % i, 0) for i in range(NODES)]
        for node in self.nodes[:-1]:
            state.activate_node(node, 300.0)
        state.delete_node("", self.nodes[1])
        self.messages, self.objects = [], {}
        shared = ArrayRecord({"w": Array(np.zeros(3)), "v": Array(np.ones(2))})
        for i in range(MESSAGES):
            content = RecordDict({"w": shared, "a": ConfigRecord({"n": i // 2})})
            message = Message(content, self.nodes[(0, 2)[i % 2]], "train", ttl=50.0 * (i + 1))
            self.messages.append(self._whole(send(message, "", run_id=self.runs[0])))
        for i in range(MESSAGES):
            reply = Message(RecordDict({"w": shared, "b": ConfigRecord({"n": i})}), reply_to=self.messages[i][0])
            self.messages.append(self._whole(reply))
        self.runs.append(7)  # one that there is not
        self.nodes.append(7)
        parts, ids = [*self.objects, NONE], [message.metadata.message_id for message, _ in self.messages]
        root, (one, two, five) = self.messages[0][1].object_id, (ObjectTree(object_id=parts[i]) for i in (1, 2, 5))
        forged = [("none", [five] * 2), (root, [two]), (root, [one] * 2)]  # other children, or the same one twice
        self.things = {
            "run": self.runs,
            "node": self.nodes,
            "key": [b"key %d" % i for i in range(NODES + 1)],
            "part": parts,
            "blob": [*self.objects.items(), (NONE, b""), *((part, b"forged") for part in reversed(parts))],
            "message": self.messages,
            "tree": [tree for _, tree in self.messages] + [ObjectTree(object_id=i, children=c) for i, c in forged],
            "id": ids,
            "ids": [{number} for number in ids],
            "end": [(task, "completed", "") for task in tasks],
            "change": STRANGE,
            "asked": (
                {},
                {"node_ids": self.nodes[1:]},
                {"owner_aids": ["", NOOP_FLWR_AID]},
                {"statuses": ["online", "unregistered"]},
                {"node_ids": [], "statuses": ["online"]},
                {"node_ids": self.nodes, "statuses": ["online"], "owner_aids": [""]},
            ),
        }
        with state._engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    def _whole(self, message):
        from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree

        sign(message, message.object_id)
        self.objects |= {part: found.deflate() for part, found in get_all_nested_objects(message).items()}
        return message, get_object_tree(message)

    def contents(self, path):
        """Return the rows of a database's tables."""
        with closing(sqlite3.connect(path)) as db:
            tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            return {table: sorted(db.execute(f"SELECT * FROM {table}"), key=repr) for (table,) in tables}

    def reset(self):
        self.now, self.step, self.things["session"] = self.start, 0, ["", "unknown"]
        for path in self.paths:
            with closing(sqlite3.connect(self.first)) as first, closing(sqlite3.connect(path)) as db:
                first.backup(db)

    def play(self, steps):
        """Play steps on both, and compare each answer and all tables after it; return the answers by steps' names."""
        self.reset()
        found = defaultdict(list)
        for name, *of in steps:
            self.step += 1
            theirs, ours = (self._answer(state, name, *of) for state in self.states)
            assert theirs == ours, (name, of)
            assert self.contents(self.paths[0]) == self.contents(self.paths[1]), (name, of)
            found[name].append(ours)
            if name == "session":
                self.things["session"].append(f"session {self.step}")
        return found

    def _answer(self, state, name, *numbers):
        method, *kinds = CALLS[name]
        values = []
        for kind, number in zip(kinds, numbers, strict=True):
            things = self.things.get(kind)
            value = number if things is None else things[number % len(things)]
            values += value if isinstance(value, tuple) else [value]
        call = attrgetter(method)(state) if method else partial(getattr(self, f"do_{name}"), state)
        try:
            answer = call(*values)
            return str(sorted(answer) if isinstance(answer, set) else answer)
        except Exception as error:
            return f"{type(error).__name__}: {getattr(error, 'orig', error)}"

    def do_push(self, state, found, tree, session):
        from flwr.common.serde import message_from_proto, message_to_proto

        bare = message_from_proto(message_to_proto(Message(RecordDict(), metadata=found.metadata)))
        return state.store_message_and_object_tree(bare, tree, session)

    def do_upload(self, state, session, run):
        """Store all objects of a session."""
        return [state.store_object(run, session, part, blob) for part, blob in self.objects.items()]

    def do_replies(self, state):
        numbers = {message.metadata.message_id for message, _ in self.messages[:MESSAGES]}
        of = {} if SPOKEN == GRPC else {"run_id": self.runs[0]}
        return sorted(str(m.metadata.reply_to_message_id) for m in state.get_message_res(numbers, **of))

    def do_info(self, state, asked):
        return sorted(map(str, state.get_node_info(**asked)))

    def do_traffic(self, state, run, sent, received):
        return state.store_traffic(run, bytes_sent=sent, bytes_recv=received)

    def do_strange(self, state, found, tree, change):
        """Push a message of another time, run or node."""
        metadata = copy.copy(found.metadata)
        metadata.__dict__.update({f"_{key}": value for key, value in change.items()})
        session = self.things["session"][-1]
        return state.store_message_and_object_tree(Message(RecordDict(), metadata=metadata), tree, session)

    def do_wait(self, state, seconds):
        self.now += timedelta(seconds=seconds / 2)  # once for each of the two


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield World(tmp_path_factory.mktemp("plain"), monkeypatch)


KINDS = {
    "limit": st.sampled_from([None, 1, 2]),
    "seconds": st.sampled_from([10.0, 300.0]),
    "work": st.sampled_from([0.0, 0.1, 1e300]),
    "pause": st.sampled_from([1.0, 60.0, 400.0]),
    "bytes": st.integers(-1, 5),
}


@st.composite
def steps(draw):
    """Draw a step; of a kind that is not listed, the number of a thing."""
    name = draw(st.sampled_from([*CALLS]))
    return name, *(draw(KINDS.get(kind, st.integers(-5, 60))) for kind in CALLS[name][1:])


def script(text):
    """Return the steps of a text, each a name and its numbers; of ``a-b`` there is a step for each number."""
    steps = []
    for step in re.split("[;\n]", text.strip()):
        ranged = re.fullmatch(r"(.+) (\d+)-(\d+)", step.strip())
        alike = [f"{ranged[1]} {n}" for n in range(int(ranged[2]), int(ranged[3]) + 1)] if ranged else [step]
        steps += [(name, *map(ast.literal_eval, numbers)) for name, *numbers in map(str.split, alike)]
    return steps


ROUND = script(
    """
    session 0; push 0 2; push 1 2; push 1 2; push 2 1; tree 3; get 0 2
    store 0 2 -2; store 1 2 1; upload 2 0; get 0 2; tree 3; look 0 1; look 0 1; look 1 1
    beat 0 30; beat 1 30; beat 3 30; beat 4 30; key 0-4
    traffic 0 3 4; traffic 2 3 4; traffic 0 0 0; traffic 0 -1 0
    session 0; push 5 3; store 0 0 0; upload 3 0; replies; delete 0-39
    register 0 -1; register 0 -2; register 0 -3; put 1; put -2
    session 0; push 3 4; wait 400; upload 4 0; get 0 1; look 2 1; clean 0
    session 1; push 4 5; register 1 4; upload 5 0; valid 4; valid 0; forget 4
    runtime 0 0.1; runtime 0 0.2; runtime 2 0.1
    """
)
EXPIRED = script(
    f"""
    session 0; push 1 2; get 0 0-39; nodes 0; register 0 0; wait 400; wait 400; get 0 {ROOT}; get 0 0-39
    info 4; info 5; nodes 0-2; beat 0 30; info 0-5; nodes 0; wait 60
    activate 0 20; activate 1 20; activate 2 20; activate 3 20; activate 4 20
    nodes 0; activate 0 10; leave 0; wait 20; leave 2; wait 60; leave 3; activate 2 10; activate 3 10
    """
)
LATER = script(
    """
    session 0; push 4 2; push 2 2; session 0; push 0 3; session 0; push 0 4; strange 3 0-8; valid 0
    look 0 1; look 0 1; look 0 1; session 0; strange 9 0-8; push 9 5; session 0; push 9 6; push 8 6
    session 0; push 8 7; replies; forget 4; valid 4; replies; wait 60; valid 0; finish 0; push 1 7; push 7 7
    """
)


def test_a_round_leaves_the_same_answers_and_tables(world):
    told = world.play(ROUND)
    assert {step[0] for step in ROUND + LATER + EXPIRED} == CALLS.keys()
    assert sum(answer.startswith("(True") for answer in told["push"]) >= 4
    assert sum("True" in answer for answer in told["upload"]) >= 2 and any(len(answer) > 2 for answer in told["look"])
    assert "children" in str(told["tree"]) and "NUMPY" in str(told["get"])


def test_expired_uploads_and_nodes_leave_the_same_answers_and_tables(world):
    told = world.play(EXPIRED)
    assert [*world.objects][ROOT] == world.messages[0][1].object_id
    assert [node.count(",") for node in told["nodes"]] == [1, 0, 0, 0, 0, 2]
    assert told["nodes"][1] == "[]" != told["nodes"][-2]
    assert [info.count("node_id") for info in told["info"]] == [0, 0, NODES, NODES - 1, NODES, 2, 0, 1]


def test_strange_messages_leave_the_same_answers_and_tables(world):
    told = world.play(LATER)
    stored = {name: [answer.startswith("(True") for answer in told[name]] for name in ("push", "strange")}
    assert stored["push"] == [True] * 4 + [False] * 2 + [True] * 2 + [False] * 2
    assert sum(stored["strange"]) == 2


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(steps(), max_size=30))
def test_any_sequence_leaves_the_same_answers_and_tables(world, sequence):
    world.play([("session", 0), ("session", 1), *sequence])


def test_a_node_that_left_is_seen_without_its_reply(world):
    there, gone = world.play(script("session 0; push 2 2; upload 2 0; replies; beat 0 10; wait 60; replies"))["replies"]
    assert there.count(",") == gone.count(",") - 1


def test_a_transaction_is_sqlalchemys_where_a_method_needs_it(world):
    from sqlalchemy import text

    world.reset()
    _, state = world.states
    beats = text("UPDATE node SET heartbeat_interval = 77.0")
    for statements in ([], [beats]):
        with pytest.raises(KeyError), state.session() as session:
            state.store_traffic(world.runs[0], bytes_sent=3, bytes_recv=4)
            for statement in statements:
                session.execute(statement)
            raise KeyError
        before = world.contents(world.paths[1])
        assert before == world.contents(world.first)
    with state.session() as session, state.object_store.session() as inner:
        assert inner is session
        session.execute(beats)
        state.store_traffic(world.runs[0], bytes_sent=3, bytes_recv=4)
    after = world.contents(world.paths[1])
    assert after["node"] != before["node"] and after["run"] != before["run"]


def test_threads_take_turns_and_none_waits_for_ever(world, monkeypatch):
    from sqlalchemy.exc import TimeoutError as Waited

    world.reset()
    _, state = world.states
    with ThreadPoolExecutor(8) as threads:
        traffic = [threads.submit(state.store_traffic, world.runs[0], bytes_sent=1, bytes_recv=0) for _ in range(200)]
    assert [each.result() for each in traffic] == [None] * 200
    assert state.get_run_info(run_ids=[world.runs[0]])[0].bytes_sent == 200
    monkeypatch.setattr(transactions, "TURN", 0.01)
    with state.session(), ThreadPoolExecutor(1) as thread, pytest.raises(Waited):
        thread.submit(state.get_node_id_by_public_key, b"key 0").result()


def test_methods_that_are_not_flowers_stay(monkeypatch, caplog):
    from flwr.supercore.object_store.sql_object_store import SqlObjectStore

    def put(self, object_id, object_content):
        """Do something else."""

    monkeypatch.setattr(SqlObjectStore, "put", put)
    assert not link_state.speak_plainly() and SqlObjectStore.put is put
    assert len(caplog.records) == 1


def test_the_messages_of_a_push_are_one_transaction(world, monkeypatch):
    from flwr.server.superlink.linkstate import linkstate_factory
    from flwr.supercore.object_store import object_store_factory
    from flwr.superlink.servicer.runtime import runtime_handlers

    seen = []
    monkeypatch.setattr(linkstate_factory, "SqlLinkState", None)
    monkeypatch.setattr(object_store_factory, "SqlObjectStore", None)
    monkeypatch.setattr(runtime_handlers, "push_messages", lambda request, state, task: seen.append(state.depth))
    assert link_state.speak_plainly()
    assert (object_store_factory.SqlObjectStore, linkstate_factory.SqlLinkState) == link_state.classes(True)

    class Counting:
        depth = 0

        def session(self):
            self.depth += 1
            return closing(SimpleNamespace(close=lambda: None))

    runtime_handlers.push_messages(None, Counting(), None)
    assert seen == [1]


@pytest.mark.parametrize("spoil", [lambda i: i + "\0 1", lambda i: i + "\0" * 64, lambda i: i[:10], lambda i: "x" * 64])
@pytest.mark.parametrize("key", ["_message_id", "_reply_to_message_id"])
def test_an_id_that_is_no_digest_is_refused(key, spoil, world):
    state = world.states[1]
    world.reset()
    assert state.store_message_ins(world.messages[0][0])
    before = world.contents(world.paths[1])
    for of in (0, MESSAGES):
        metadata = copy.copy(world.messages[of][0].metadata)
        metadata.__dict__[key] = spoil(world.messages[0][0].metadata.message_id)
        store = state.store_message_res if of else state.store_message_ins
        assert store(Message(RecordDict(), metadata=metadata)) is None
    assert world.contents(world.paths[1]) == before
