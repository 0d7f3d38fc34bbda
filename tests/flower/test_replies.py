"""Replies as a node uploads them, object by object: what cannot be read is lost, and names its client."""

from threading import Barrier
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.common.serde import message_to_proto
from flwr.supercore.constant import HEAD_BODY_DIVIDER, HEAD_VALUE_DIVIDER
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree

from aoi_fl.flower.errors import MESSAGE_UNAVAILABLE
from aoi_fl.flower.messages import send, sign
from aoi_fl.flower.replies import Replies, size_of
from aoi_fl.flower.seams import CALLS, REPLIES
from tests.flower.objects import CallFailed, deflated, needs

pytestmark = needs(REPLIES)
LIAR, HONEST = 77, 78  # nodes


def asked(node: int) -> Message:
    return send(Message(RecordDict({"a": ConfigRecord()}), node, "query.hello"), f"question {node}")


class Stub:
    """The calls of a SuperLink that holds one reply of each node, with the objects that it has uploaded."""

    def __init__(self) -> None:
        self.replies, self.objects, self.confirmed = [], {}, []
        self.poison, self.late, self.calls, self.pulled = set(), set(), [], []

    def upload(self, reply: Message, objects: dict[str, bytes] | None = None, kind: str | None = None) -> str:
        """Hold a reply, and return the id of its message."""
        sign(reply, reply.object_id)
        tree = get_object_tree(reply)
        whole = {part: found.deflate() for part, found in get_all_nested_objects(reply).items()}
        announced = message_to_proto(reply)
        if kind is not None:
            announced.metadata.message_type = kind
        self.replies.append((announced, tree))
        self.objects |= whole | {reply.object_id if part == "" else part: c for part, c in (objects or {}).items()}
        return reply.metadata.reply_to_message_id

    def PullMessages(self, request):
        self.calls.append(list(request.message_ids))
        if self.poison & set(request.message_ids):
            raise CallFailed
        return SimpleNamespace(
            messages_list=[m for m, _ in self.replies if m.metadata.reply_to_message_id in request.message_ids],
            message_object_trees=[t for m, t in self.replies if m.metadata.reply_to_message_id in request.message_ids],
        )

    def PullObject(self, request):
        self.pulled.append(request.object_id)
        if request.object_id in self.poison:
            raise CallFailed
        content, there = self.objects.get(request.object_id), request.object_id not in self.late
        return SimpleNamespace(
            object_found=content is not None, object_available=there, object_content=content if there else b""
        )

    def ConfirmMessageReceived(self, request):
        self.confirmed.append(request.message_object_id)


def replies_of(stub: Stub, **how) -> Replies:
    how = {"large": False, "sizes": {}, "is_late": lambda: False} | how
    return Replies(SimpleNamespace(run=SimpleNamespace(run_id=5), node=None, **{CALLS: stub}), **how)


def reply_of(node: int, **records) -> Message:
    return Message(RecordDict(records or {"a": ConfigRecord({"n": 1})}), reply_to=asked(node))


def fetched(replies: Replies, number: str) -> Message | None:
    """Return the reply to a message after a look that announces it."""
    assert replies.look([number]) == [number]
    return replies.fetch(number)


def answers_another() -> bytes:
    return Message(Error(0, "of another's"), reply_to=asked(HONEST)).deflate()


FORMS = {
    "a message with a garbage body": deflated("Message", [], b"\xff" * 4),
    "a config record": ConfigRecord({"a": 1}).deflate(),
    "a child that the tree does not list": deflated("Message", ["0" * 64], b""),
    "a message without content": deflated("Message", [], b""),
    "an unknown kind": deflated("Pickle", [], b"cos\nsystem\n"),
    "no bytes": b"",
    "a length that is none": f"Message{HEAD_VALUE_DIVIDER}{HEAD_VALUE_DIVIDER}many".encode() + HEAD_BODY_DIVIDER,
    "a nested JSON": deflated("RecordDict", [], b"[" * 100_000),
}


@pytest.mark.parametrize("large", [True, False])
@pytest.mark.parametrize("blob", FORMS.values(), ids=FORMS)
def test_an_unreadable_reply_is_lost_and_others_are_not(blob, large):
    stub = Stub()
    ids = [stub.upload(reply_of(LIAR), {"": blob}), stub.upload(reply_of(HONEST))]
    replies = replies_of(stub, large=large)
    assert replies.look(ids) == ids
    lost, good = replies.fetch_all(ids)
    assert lost.has_error() and lost.error.code == MESSAGE_UNAVAILABLE
    assert (lost.metadata.src_node_id, lost.metadata.reply_to_message_id) == (LIAR, ids[0])
    assert good.content["a"] == {"n": 1} and len(stub.confirmed) == 2  # the SuperLink need not keep either


def test_small_replies_are_fetched_at_the_same_time():
    stub, both = Stub(), Barrier(2, timeout=10)
    stub.ConfirmMessageReceived = lambda request: both.wait()
    ids = [stub.upload(reply_of(node)) for node in (LIAR, HONEST)]
    replies = replies_of(stub)
    assert [reply.metadata.reply_to_message_id for reply in replies.fetch_all(replies.look(ids))] == ids


@pytest.mark.parametrize("within", [answers_another(), reply_of(HONEST).deflate()], ids=["error", "content"])
def test_what_a_reply_answers_is_told_by_its_envelope(within):
    stub = Stub()
    number = stub.upload(reply_of(LIAR), {"": within})
    found = fetched(replies_of(stub), number)
    assert (found.metadata.reply_to_message_id, found.metadata.src_node_id) == (number, LIAR)


@pytest.mark.parametrize("kind", ["", "garbage", "train.not an identifier", "\x00"])
def test_an_envelope_with_a_foreign_type_of_message_is_read(kind):
    stub = Stub()
    number = stub.upload(reply_of(LIAR), kind=kind)
    assert fetched(replies_of(stub), number).content["a"] == {"n": 1}


@pytest.mark.parametrize("poisoned", [{0}, {7}, {199}, {3, 4, 150}], ids=str)
def test_one_poisoned_message_does_not_hide_the_others(poisoned):
    stub = Stub()
    ids = [stub.upload(reply_of(node)) for node in range(100, 300)]
    stub.poison = {ids[i] for i in poisoned}
    replies = replies_of(stub)
    sound = [i for i in ids if i not in stub.poison]
    assert replies.look(ids) == sound and len(stub.calls) <= 1 + 2 * 9 * len(poisoned)
    assert all(replies.fetch(i).has_content() for i in sound)
    assert replies.look(list(stub.poison)) == []
    found = replies.look(list(stub.poison))  # the third time is the last
    assert set(found) == stub.poison
    for message_id in found:
        lost = replies.fetch(message_id)
        assert lost.has_error() and lost.metadata.reply_to_message_id == message_id
    calls = len(stub.calls)
    replies.look(list(stub.poison))
    assert len(stub.calls) == calls


def test_after_the_deadline_a_failing_call_is_not_divided():
    stub, ids = Stub(), [asked(node).metadata.message_id for node in (1, 2, 3, 4)]
    stub.poison = set(ids)
    replies_of(stub, is_late=lambda: True).look(ids)
    assert stub.calls == [ids]


def test_a_reply_over_whose_object_the_superlink_fails_is_lost():
    stub, reply = Stub(), reply_of(LIAR)
    number, other = stub.upload(reply), stub.upload(reply_of(HONEST, a=ConfigRecord({"n": 2})))
    stub.poison, replies = {reply.object_id}, replies_of(stub)
    assert replies.look([number, other]) == [number, other]
    assert [replies.fetch(number) for _ in range(2)] == [None, None]
    assert replies.fetch(number).has_error() and replies.fetch(other).has_content()


TREES = {
    "wide": lambda n: {f"r{i}": ConfigRecord({"i": i}) for i in range(n)},
    "arrays": lambda n: {"w": ArrayRecord({f"x{i}": Array(np.full(1, i)) for i in range(n // 2)})},
}


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_a_reply_of_too_many_objects_is_refused_unfetched(tree):
    stub = Stub()
    number = stub.upload(reply_of(LIAR, **tree(300)))
    lost = fetched(replies_of(stub, sizes={number: 4}), number)
    assert lost.has_error() and "objects" in lost.error.reason and not stub.pulled


def test_an_incomplete_reply_is_asked_for_its_missing_objects_only_and_after_a_pause(monkeypatch):
    stub, now = Stub(), [100.0]
    monkeypatch.setattr("aoi_fl.flower.replies.time", SimpleNamespace(monotonic=lambda: now[0]))
    number = stub.upload(reply_of(HONEST, a=ConfigRecord({"n": 1}), b=MetricRecord({"m": 2.0})))
    replies, parts = replies_of(stub), list(stub.objects)
    stub.late = {parts[0], parts[-1]}
    assert replies.look([number]) == [number]
    for pause in (0.05, 0.1, 0.2, 0.4, 0.5, 0.5):
        assert replies.fetch(number) is None
        pulled = len(stub.pulled)
        now[0] += 0.9 * pause
        assert replies.fetch(number) is None and len(stub.pulled) == pulled
        now[0] += 0.2 * pause
    stub.late = set()
    assert replies.fetch(number).content["b"] == {"m": 2.0}
    assert len(stub.pulled) == len(parts) + 5 + 2  # all, the last missing one five times, both


def test_an_incomplete_reply_does_not_wait_after_the_deadline():
    stub, late = Stub(), []
    number, replies = stub.upload(reply_of(HONEST)), replies_of(stub, is_late=lambda: bool(late))
    stub.late = set(stub.objects)
    assert fetched(replies, number) is None
    stub.late = set()
    late.append(True)
    assert replies.fetch(number).has_content()


def test_a_large_reply_is_fetched_last_and_until_the_deadline():
    stub = Stub()
    small, few = stub.upload(reply_of(HONEST)), set(stub.objects)
    ids = [stub.upload(reply_of(LIAR, **TREES["wide"](100))), small]
    replies = replies_of(stub, large=True, sizes=dict.fromkeys(ids, 4), is_late=lambda: len(stub.pulled) >= 20)
    (good,) = replies.fetch_all(replies.look(ids))
    assert good.metadata.reply_to_message_id == small and stub.pulled[0] in few
    assert replies.fetch(ids[0]) is None and 20 <= len(stub.pulled) < 40


def test_a_model_of_full_size_is_fetched_after_the_deadline():
    stub, reply = Stub(), reply_of(HONEST, **TREES["arrays"](600))
    number = stub.upload(reply)
    replies = replies_of(stub, large=True, sizes={number: size_of(reply.content)}, is_late=lambda: True)
    assert len(fetched(replies, number).content["w"]) == 300
