"""Our SuperLink: one connection to its database, which calls take in turn, and replies that it refuses."""

import threading
from types import SimpleNamespace

import pytest
from flwr.proto.fleet_pb2 import PushMessagesRequest, PushMessagesResponse
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.message_pb2 import Metadata, ObjectTree
from flwr.proto.node_pb2 import Node

from aoi_fl.flower.seams import DATABASE, INTAKE
from aoi_fl.flower.superlink import connect_once, refuse_strange_replies


@pytest.mark.skipif(not DATABASE.there, reason=DATABASE.lost)
def test_a_second_call_waits_for_the_database(tmp_path, monkeypatch):
    from flwr.supercore import sql_mixin
    from sqlalchemy.pool import StaticPool

    monkeypatch.setattr(sql_mixin, "create_engine", sql_mixin.create_engine)  # as it was, after this test
    connect_once()
    engine, served = sql_mixin.create_engine(f"sqlite:///{tmp_path / 'state.db'}"), threading.Event()

    def call():
        with engine.connect():
            served.set()

    with engine.connect():
        waiting = threading.Thread(target=call)
        waiting.start()
        assert not served.wait(0.5)
    assert served.wait(10)
    waiting.join()
    with sql_mixin.create_engine("sqlite://", poolclass=StaticPool).connect():  # one in memory is left as it is
        pass


NAN = float("nan")
STRANGE = {
    "a ttl that is no number": {"ttl": NAN}, "an infinite ttl": {"ttl": float("inf")},
    "a birth that is no number": {"created_at": NAN}, "a work time that is no number": {"runtime": NAN},
    "a tree of 3,000 objects": {"objects": 3000}, "a tree of 20,000 objects": {"objects": 20_000},
    "two replies": {"count": 2},
}  # fmt: skip


def pushed(ttl=10.0, created_at=1.8e9, runtime=0.1, objects=1, count=1, node=77, source=77):
    """Return what a node sends to announce a reply."""
    told = Metadata(run_id=5, message_id="m", src_node_id=source, dst_node_id=1, reply_to_message_id="asked",
                    group_id="1", created_at=created_at, ttl=ttl)  # fmt: skip
    tree = ObjectTree(object_id="m", children=[ObjectTree(object_id=str(i)) for i in range(objects)])
    return PushMessagesRequest(
        node=Node(node_id=node), messages_list=[ProtoMessage(metadata=told)] * count,
        message_object_trees=[tree] * count, clientapp_runtime_list=[runtime],
    )  # fmt: skip


class State:
    """A SuperLink's state with one question, put to node 77."""

    def __init__(self):
        self.stored = []

    def get_valid_message_ins(self, number):
        asked = {"dst_node_id": 77, "run_id": 5, "created_at": 1.8e9, "ttl": 1e9, "group_id": "1"}
        return asked | {"message_type": "train"} if number == "asked" else None

    def store_object(self, run_id, session_id, object_id, content):
        self.stored.append((run_id, session_id, object_id))


@pytest.fixture
def intake(monkeypatch):
    """Return ours in the place of Flower's, and the requests that reach Flower's."""
    from flwr.server.superlink.fleet.message_handler import message_handler
    from flwr.superlink.servicer.runtime import runtime_handlers

    taken = []

    def take(request, state):
        taken.append(request)
        return PushMessagesResponse(session_id="s", objects_to_push=["m"])

    monkeypatch.setattr(message_handler, "push_messages", take)
    monkeypatch.setattr(runtime_handlers, "push_messages", lambda request, state, task: None)
    refuse_strange_replies()
    tree = ObjectTree(object_id="m", children=[ObjectTree(object_id=str(i)) for i in range(9)])
    sent = SimpleNamespace(message_object_trees=[tree])
    runtime_handlers.push_messages(sent, None, SimpleNamespace(run_id=5))
    return message_handler.push_messages, taken


@pytest.mark.skipif(not INTAKE.there, reason=INTAKE.lost)
@pytest.mark.parametrize("form", STRANGE.values(), ids=STRANGE)
def test_an_error_is_stored_in_the_place_of_a_strange_reply(form, intake):
    push, taken = intake
    state = State()
    answer = push(pushed(**form), state)
    (request,) = taken
    assert list(answer.objects_to_push) == [] and request.messages_list[0].HasField("error")
    told = request.messages_list[0].metadata
    assert (told.src_node_id, told.reply_to_message_id, told.run_id) == (77, "asked", 5) and 0 < told.ttl < 1e12
    assert state.stored == [(5, "s", told.message_id)]


@pytest.mark.skipif(not INTAKE.there, reason=INTAKE.lost)
def test_a_reply_in_another_nodes_name_is_not_stored(intake):
    push, taken = intake
    assert push(pushed(node=78), State()) == PushMessagesResponse() and not taken


@pytest.mark.skipif(not INTAKE.there, reason=INTAKE.lost)
def test_a_reply_as_large_as_its_message_goes_through(intake):
    push, taken = intake
    request = pushed(objects=40)
    assert list(push(request, State()).objects_to_push) == ["m"] and taken == [request]
