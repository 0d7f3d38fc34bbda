"""Answers of a SuperLink's database that are kept for a second, and calls that wait."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib import import_module
from types import SimpleNamespace

import grpc
import pytest
from sqlalchemy import event

from aoi_fl.flower import link_state, superlink
from aoi_fl.flower.errors import is_busy
from aoi_fl.flower.fleet import signature
from aoi_fl.flower.seams import ANSWERS, AUTH, KEYS
from aoi_fl.flower.versions import OVER_GRPC
from aoi_fl.lab.benchmarks.fleet.http_channel import _headers
from tests.flower.objects import CallFailed, needs, running

needs_answers = needs(ANSWERS)


class Asked:
    """A state with a run that is running, and a count of the statements that reach its database."""

    def __init__(self, path):
        self.state, self.count = link_state.open_state(str(path), False), 0
        event.listen(self.state._engine, "before_cursor_execute", self._note)
        self.run_id, self.task, self.token = running(self.state)

    def _note(self, *of):
        self.count += 1

    @property
    def status(self):
        return self.state.get_run_status({self.run_id})[self.run_id].status

    def statements(self, ask):
        before = self.count
        ask()
        return self.count - before


@pytest.fixture
def asked(tmp_path, monkeypatch):
    from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState

    asks = "get_run_status", "get_run_info", "get_fab", "get_task_by_token"
    for name in (*superlink._CHANGES, "_cleanup_expired_task_tokens", *asks):
        monkeypatch.setattr(SqlLinkState, name, getattr(SqlLinkState, name))  # as it was, after this test
    superlink.keep_answers()
    return Asked(tmp_path / "state.db")


def a_second_later(monkeypatch):
    monkeypatch.setattr(superlink, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + 1.1))


@needs_answers
def test_status_run_and_fab_are_asked_for_once_a_second(asked, monkeypatch):
    from flwr.supercore.fab import Fab

    number = asked.state.store_fab(Fab("", b"app", {}))
    questions = {
        "status": lambda: asked.state.get_run_status({asked.run_id}),
        "run": lambda: asked.state.get_run_info(run_ids=[asked.run_id]),
        "fab": lambda: asked.state.get_fab(number),
        "task": lambda: asked.state.get_task_by_token(asked.token),
    }
    answers = {name: ask() for name, ask in questions.items()}
    for name, ask in questions.items():
        assert asked.statements(ask) == 0 and ask() == answers[name]
    a_second_later(monkeypatch)
    assert all(asked.statements(ask) > 0 for ask in questions.values())
    assert asked.state.get_run_status({asked.run_id, 7}).keys() == {asked.run_id}  # of several it is asked each time
    assert asked.state.get_run_status({7}) == {} and asked.state.get_fab("none") is None


@needs_answers
def test_what_changes_a_run_is_seen_at_once(asked):
    from flwr.common.constant import Status, SubStatus

    assert asked.status == Status.RUNNING and asked.state.get_task_by_token(asked.token).task_id == asked.task
    assert asked.state.finish_task(asked.task, SubStatus.COMPLETED, "")
    assert asked.status == Status.FINISHED and asked.state.get_task_by_token(asked.token) is None
    assert asked.state.get_run_info(run_ids=[asked.run_id])[0].status.sub_status == SubStatus.COMPLETED


@needs_answers
def test_an_answer_older_than_a_change_is_not_kept():
    kept = superlink._Kept()

    def ask():  # in another thread the task ends between the question and the answer
        kept.forget()
        return "running"

    assert kept.get("status", ask) == "running"
    assert kept.get("status", lambda: "finished") == "finished" == kept.get("status", lambda: "other")


@needs_answers
def test_silent_tasks_end_within_a_second(asked, monkeypatch):
    from flwr.common.constant import Status
    from flwr.supercore.corestate import sql_corestate

    asked.state.get_tasks()
    late = sql_corestate.now() + timedelta(days=1)
    monkeypatch.setattr(sql_corestate, "now", lambda: late)
    asked.state.get_tasks()
    assert asked.status == Status.RUNNING  # the second is not over
    a_second_later(monkeypatch)
    assert asked.status == Status.FINISHED


@needs(KEYS)
def test_a_known_key_is_parsed_once_and_checked_each_time(tmp_path, monkeypatch):
    from flwr.supercore import runtime_version_compatibility as versions
    from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes

    parsed, checks = [], import_module(AUTH)
    monkeypatch.setattr(
        checks, "bytes_to_public_key", lambda pem, parse=checks.bytes_to_public_key: (parsed.append(pem), parse(pem))[1]
    )
    monkeypatch.setattr(versions, "Version", versions.Version)
    superlink.read_once()
    state = link_state.open_state(str(tmp_path / "state.db"), True)
    made = SimpleNamespace(state=lambda: state)
    private, public = generate_key_pairs()
    pem = public_key_to_bytes(public)
    node = state.create_node("", "", pem, 30.0)

    def call(key=private):
        signed = signature(key, pem)
        request = SimpleNamespace(node=SimpleNamespace(node_id=node))
        if not OVER_GRPC:
            app = SimpleNamespace(state=SimpleNamespace(linkstate_factory=made))
            asked = SimpleNamespace(protobuf_request=request)
            checks.authenticate_node(SimpleNamespace(headers=_headers(signed), app=app, state=asked))
            return "answer"
        interceptor = checks.NodeAuthServerInterceptor(made)
        details = SimpleNamespace(method="/flwr.proto.Fleet/PullMessages", invocation_metadata=signed)
        answer = grpc.unary_unary_rpc_method_handler(lambda request, context: "answer")
        handler = interceptor.intercept_service(lambda details: answer, details)
        return handler.unary_unary(request, Context())

    class Context:
        def abort(self, code, text):
            raise PermissionError(text)

    refused = checks.HTTPException if not OVER_GRPC else PermissionError
    assert [call() for _ in range(3)] == ["answer"] * 3 and parsed == [pem]
    with pytest.raises(refused):
        call(generate_key_pairs()[0])
    state.delete_node("", node)
    with pytest.raises(refused):
        call()
    assert parsed == [pem]


def test_calls_wait_for_their_turn(monkeypatch):
    """Of a server of one thread that Flower lets serve two at a time."""
    monkeypatch.setattr(grpc, "server", grpc.server)  # as it was, after this test
    superlink.let_calls_wait()
    go = threading.Event()
    answer = grpc.unary_unary_rpc_method_handler(lambda request, context: go.wait(20) and request)
    handler = grpc.method_handlers_generic_handler("any", {"thing": answer})
    server = grpc.server(ThreadPoolExecutor(1), maximum_concurrent_rpcs=2, handlers=[handler])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary("/any/thing")
        futures = [call.future(b"", timeout=20) for _ in range(20)]
        threading.Timer(0.3, go.set).start()
        assert {future.code().name for future in futures} == {"OK"}
    server.stop(None).wait()


def test_a_message_that_is_too_large_is_not_tried_again():
    assert is_busy(CallFailed("RESOURCE_EXHAUSTED"))
    assert not is_busy(CallFailed("RESOURCE_EXHAUSTED", "Received message larger than max (5 vs. 4)"))


@pytest.mark.parametrize("name", ["RESOURCE_EXHAUSTED", "CANCELLED", "INVALID_ARGUMENT"])
@pytest.mark.skipif(not OVER_GRPC, reason="over HTTP a call has no such code")
def test_a_call_to_a_busy_superlink_is_tried_again(name):
    from flwr.supercore.retry import make_simple_grpc_retry_invoker

    from aoi_fl.flower.supernode import be_patient

    retries = be_patient(make_simple_grpc_retry_invoker, pytest.fail)()
    waits = []
    retries.wait_function, retries.recoverable_exceptions = waits.append, grpc.RpcError
    errors = iter([CallFailed(name)] * 2)

    def call():
        if (error := next(errors, None)) is not None:
            raise error
        return "answer"

    if name == "INVALID_ARGUMENT":
        with pytest.raises(CallFailed):
            retries.invoke(call)
    else:
        assert retries.invoke(call) == "answer" and len(waits) == 2
