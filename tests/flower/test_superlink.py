"""Our SuperLink: one connection to its database, which calls take in turn, and replies that it refuses."""

import logging
import threading
from importlib import import_module
from types import SimpleNamespace

import pytest
from flwr.proto.fleet_pb2 import PullMessagesRequest, PushMessagesRequest, PushMessagesResponse
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.message_pb2 import Metadata, ObjectTree
from flwr.proto.node_pb2 import Node

from aoi_fl.flower.seams import DATABASE, HANDLERS, INTAKE, LINES, THREADS
from aoi_fl.flower.superlink import connect_once, log_no_looks, refuse_strange_replies, use_few_threads
from tests.flower.objects import needs


@needs(DATABASE)
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
        assert not served.wait(0.2)
    assert served.wait(10)
    waiting.join()
    with sql_mixin.create_engine("sqlite://", poolclass=StaticPool).connect():  # one in memory is left as it is
        pass


NAN = float("nan")
STRANGE = {
    "a ttl that is no number": {"ttl": NAN},
    "a birth that is no number": {"created_at": NAN},
    "a work time that is no number": {"runtime": NAN},
    "a tree of 3,000 objects": {"objects": 3000},
    "two replies": {"count": 2},
}


def pushed(ttl=10.0, created_at=1.8e9, runtime=0.1, objects=1, count=1, node=77):
    """Return what a node sends to announce a reply."""
    told = Metadata(
        run_id=5,
        message_id="m",
        src_node_id=77,
        dst_node_id=1,
        reply_to_message_id="asked",
        group_id="1",
        created_at=created_at,
        ttl=ttl,
    )
    tree = ObjectTree(object_id="m", children=[ObjectTree(object_id=str(i)) for i in range(objects)])
    return PushMessagesRequest(
        node=Node(node_id=node),
        messages_list=[ProtoMessage(metadata=told)] * count,
        message_object_trees=[tree] * count,
        clientapp_runtime_list=[runtime],
    )


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
    if not INTAKE.there:
        pytest.skip(INTAKE.lost)
    from flwr.superlink.servicer.runtime import runtime_handlers

    taken, handlers = [], import_module(HANDLERS)

    def take(request, state):
        taken.append(request)
        return PushMessagesResponse(session_id="s", objects_to_push=["m"])

    monkeypatch.setattr(handlers, "push_messages", take)
    monkeypatch.setattr(runtime_handlers, "push_messages", lambda request, state, task: None)
    refuse_strange_replies()
    runtime_handlers.push_messages(pushed(objects=9), None, SimpleNamespace(run_id=5))
    return handlers.push_messages, taken


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


def test_a_reply_in_another_nodes_name_is_not_stored(intake):
    push, taken = intake
    assert push(pushed(node=78), State()) == PushMessagesResponse() and not taken


def test_a_reply_as_large_as_its_message_goes_through(intake):
    push, taken = intake
    request = pushed(objects=40)
    assert list(push(request, State()).objects_to_push) == ["m"] and taken == [request]


@needs(THREADS)
def test_clients_and_serverapps_are_answered_by_few_threads_and_commands_by_many(monkeypatch):
    names = "cli.flower_superlink", "servicer.runtime.runtime_grpc"
    apis = [import_module(f"flwr.superlink.{name}") for name in names]
    control = import_module("flwr.superlink.servicer.control.control_grpc")
    for module in (*apis, control):
        monkeypatch.setattr(module, "generic_create_grpc_server", module.generic_create_grpc_server)
    use_few_threads()

    def threads(module):
        server = module.generic_create_grpc_server((None, lambda servicer, server: None), "127.0.0.1:0")
        return server._state.thread_pool._max_workers

    assert [threads(module) for module in (*apis, control)] == [4, 4, 1000]


@needs(LINES)
@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
def test_looks_are_in_the_log_at_the_level_debug_only(level, monkeypatch, caplog):
    from flwr.common.logger import FLOWER_LOGGER
    from flwr.server.superlink.fleet.grpc_rere import fleet_servicer

    monkeypatch.setattr(FLOWER_LOGGER, "handlers", [logging.NullHandler(level)])
    FLOWER_LOGGER.setLevel(logging.DEBUG)
    for name in ("log", "MessageToDict"):
        monkeypatch.setattr(fleet_servicer, name, getattr(fleet_servicer, name))
    log_no_looks()
    made = SimpleNamespace(state=lambda: SimpleNamespace(get_message_ins=lambda **of: []), store=lambda: None)
    servicer = fleet_servicer.FleetServicer(made, made, True)
    assert not servicer.PullMessages(PullMessagesRequest(node=Node(node_id=77)), None).messages_list
    fleet_servicer.log(logging.INFO, "[Fleet.GetRun]")
    told = {line.partition("]")[0] for line in caplog.messages}
    assert told == {"[Fleet.GetRun"} | ({"[Fleet.PullMessages"} if level == logging.DEBUG else set())
