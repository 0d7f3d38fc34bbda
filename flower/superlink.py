"""A SuperLink of one's own: where its parts listen, and how it speaks to its database.

The parts listen at three gRPC addresses once, at one HTTP port in the end.

Up to Flower 1.34 each part has a gRPC address. With 1.35 the ServerApp's side moves to HTTP, with 1.37 the command's,
with 1.40 the SuperNodes': what speaks HTTP shares one port.
"""

import copy
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import wraps
from math import isfinite
from typing import Any

import grpc

from aoi_fl.flower.replies import error_reply, most_objects, objects_in
from aoi_fl.flower.seams import ANSWERS, CONTROL, DATABASE, FLEET, GRPC_GRID, INTAKE

_HOST = "127.0.0.1"
_UNKNOWN = 5000  # objects of a reply, at most, where this process has not seen the run's messages
_LARGEST = 1e12  # seconds
_KEPT = 1.0  # seconds that the database's answers to common questions are kept
_WAITING = 20_000  # calls that may wait for their turn
# What changes a run's status, or a FAB.
_CHANGES = (
    "create_run", "claim_task", "activate_task", "finish_task", "_on_task_tokens_expired", "store_fab", "store_app",
)  # fmt: skip
_TURN = 60.0  # seconds that a call waits for its turn at the database


@dataclass(frozen=True)
class Addresses:
    """Ports on this machine.

    Attributes
    ----------
    runtime : for the ServerApp
    fleet : for SuperNodes
    control : for the command ``flwr``
    """

    runtime: int
    fleet: int
    control: int

    @classmethod
    def free(cls) -> "Addresses":
        """Return ports that nobody listens on."""
        http, fleet, control = free_ports(3)
        return cls(http, fleet if FLEET.there else http, control if CONTROL.there else http)

    def of_superlink(self, *, fleet: bool = True) -> list[str]:
        """Return the arguments of ``flower-superlink``; one that simulates has no fleet."""
        if GRPC_GRID.there:
            found = [f"--serverappio-api-address={_HOST}:{self.runtime}"]
        else:
            found = [f"--host={_HOST}", f"--port={self.runtime}"]
        if CONTROL.there:
            found.append(f"--control-api-address={_HOST}:{self.control}")
        if FLEET.there and fleet:
            found.append(f"--fleet-api-address={_HOST}:{self.fleet}")
        return found

    def of_supernode(self, port: int) -> list[str]:
        """Return the arguments of a ``flower-supernode`` that hears its own apps on a port."""
        return [f"--superlink={_HOST}:{self.fleet}", *own_address(port)]

    def connection(self, name: str) -> str:
        """Return the lines of Flower's ``config.toml`` by which ``flwr`` finds the SuperLink, without TLS."""
        return f'[superlink.{name}]\naddress = "{_HOST}:{self.control}"\ninsecure = true\n'


def own_address(port: int) -> list[str]:
    """Return the arguments of a ``flower-supernode`` for its own apps, which find it on a port of this machine."""
    over_grpc = [f"--clientappio-api-address={_HOST}:{port}"]
    return over_grpc if GRPC_GRID.there else [f"--host={_HOST}", f"--port={port}"]


def connect_once() -> None:
    """Have a SuperLink in this process use one connection to its database, where it would use up to fifteen.

    SQLite lets one of them write at a time. The others sleep meanwhile, up to a tenth of a second at a time, and break
    a call off after five ("database is locked"); those beyond the fifth are opened anew for each call. In turn, a
    thousand clients are answered one and a half times as fast.
    """
    if not DATABASE.there:
        DATABASE.say_what_is_lost()
        return
    from flwr.supercore import sql_mixin

    module: Any = sql_mixin
    make: Callable[..., Any] = module.create_engine

    def create_engine(url: str, **settings: Any) -> Any:
        if "poolclass" not in settings:  # of a database in memory, which has one connection already
            settings |= {"pool_size": 1, "max_overflow": 0, "pool_timeout": _TURN}
        return make(url, **settings)

    module.create_engine = create_engine


class _Kept:
    """Answers of the database, kept for a second, or until something in this process may have changed them."""

    def __init__(self) -> None:
        self._lock, self._changes = threading.Lock(), 0
        self._answers: dict[Any, tuple[float, Any]] = {}
        self._expires = 0.0

    def get(self, question: Any, ask: Callable[[], Any]) -> Any:
        """Return the answer to a question; an empty one is asked for each time."""
        with self._lock:
            until, answer = self._answers.get(question, (0.0, None))
            changes = self._changes
        if time.monotonic() < until:
            return answer
        if answer := ask():
            with self._lock:
                if changes == self._changes:
                    self._answers[question] = time.monotonic() + _KEPT, answer
        return answer

    def forget(self) -> None:
        """Forget all answers, and those that are on their way."""
        with self._lock:
            self._changes += 1
            self._answers.clear()

    def is_due(self) -> bool:
        """Tell once in a second that the second is over."""
        with self._lock:
            due = time.monotonic() >= self._expires
            if due:
                self._expires = time.monotonic() + _KEPT
        return due


def keep_answers() -> None:
    """Have a SuperLink in this process keep for a second what every call asks its database for.

    Each call asks for a run's status, and that writes: it ends the tasks whose processes have fallen silent. Here tasks
    end once in a second. Status, run and FAB are kept until a second is over, or a task or a FAB changes. A run's
    traffic may lag by that second.
    """
    if not ANSWERS.there:
        ANSWERS.say_what_is_lost()
        return
    from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState

    state: Any = SqlLinkState
    expire, status, runs, fab = (
        state._cleanup_expired_task_tokens, state.get_run_status, state.get_run_info, state.get_fab
    )  # fmt: skip

    def kept(self: Any) -> _Kept:
        found: _Kept = vars(self).setdefault("_aoi_kept", _Kept())
        return found

    def expire_once_a_second(self: Any) -> None:
        if kept(self).is_due():
            expire(self)

    def get_run_status(self: Any, run_ids: set[int]) -> Any:
        if len(run_ids) != 1:
            return status(self, run_ids)
        return dict(kept(self).get(("status", *run_ids), lambda: status(self, run_ids)))

    def get_run_info(self: Any, **of: Any) -> Any:
        if list(of) != ["run_ids"] or of["run_ids"] is None or len(of["run_ids"]) != 1:
            return runs(self, **of)
        return [copy.copy(run) for run in kept(self).get(("run", *of["run_ids"]), lambda: runs(self, **of))]

    def get_fab(self: Any, fab_hash: str) -> Any:
        return kept(self).get(("fab", fab_hash), lambda: fab(self, fab_hash))

    def forgetting(change: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(change)
        def changed(self: Any, *of: Any, **more: Any) -> Any:
            try:
                return change(self, *of, **more)
            finally:
                kept(self).forget()

        return changed

    for name in _CHANGES:
        setattr(state, name, forgetting(getattr(state, name)))
    state._cleanup_expired_task_tokens, state.get_run_status = expire_once_a_second, get_run_status
    state.get_run_info, state.get_fab = get_run_info, get_fab


def let_calls_wait(most: int = _WAITING) -> None:
    """Have gRPC servers of this process let so many calls wait; Flower and gRPC refuse those beyond a thousand."""
    serve: Callable[..., grpc.Server] = grpc.server
    waiting = [
        ("grpc.server.max_pending_requests", most),
        ("grpc.server.max_pending_requests_hard_limit", most),
        ("grpc.server_max_unrequested_time_in_server", int(_TURN)),
    ]

    def server(*of: Any, options: Any = None, maximum_concurrent_rpcs: int | None = None, **more: Any) -> grpc.Server:
        most_at_once = None if maximum_concurrent_rpcs is None else max(most, maximum_concurrent_rpcs)
        return serve(*of, options=[*(options or ()), *waiting], maximum_concurrent_rpcs=most_at_once, **more)

    grpc.server = server


def refuse_strange_replies() -> None:
    """Have a SuperLink in this process put an error in the place of a reply that would harm others.

    Such is one of many more objects than the ServerApp's messages have, which keeps the database from all others for
    minutes, and one with a time that is no number, over which the SuperLink fails in every call that names it. One in
    another node's name, or of another run, is not stored at all.
    """
    if not INTAKE.there:
        INTAKE.say_what_is_lost()
        return
    from flwr.server.superlink.fleet.message_handler import message_handler
    from flwr.superlink.servicer.runtime import runtime_handlers

    handler: Any = message_handler
    runtime: Any = runtime_handlers
    take, send, sizes = handler.push_messages, runtime.push_messages, dict[int, int]()

    def push_from_app(request: Any, state: Any, task: Any) -> Any:
        found = [len(objects_in(tree)) for tree in request.message_object_trees]
        sizes[task.run_id] = max([sizes.get(task.run_id, 0), *found])
        return send(request, state, task)

    def push_from_node(request: Any, state: Any) -> Any:
        why = _strange(request, sizes)
        return take(request, state) if why is None else _error_in_place(request, state, take, why)

    handler.push_messages, runtime.push_messages = push_from_node, push_from_app


def _strange(request: Any, sizes: Mapping[int, int]) -> str | None:
    """Return what is wrong with a node's reply; None if nothing."""
    if len(request.messages_list) != 1 or len(request.message_object_trees) != 1:
        return "it sends several replies at once"
    told = request.messages_list[0].metadata
    if told.src_node_id != request.node.node_id:
        return "it replies in another node's name"
    for number in (told.ttl, told.created_at, *request.clientapp_runtime_list):
        if not (isfinite(number) and abs(number) < _LARGEST):
            return f"a time in its reply is {number}"
    most = most_objects(sizes[told.run_id]) if told.run_id in sizes else _UNKNOWN
    if len(objects_in(request.message_object_trees[0], most)) > most:
        return f"its reply is made of more than {most} objects"
    return None


def _error_in_place(request: Any, state: Any, take: Callable[[Any, Any], Any], why: str) -> Any:
    """Store an error reply of a node, if it was asked, and return what that node is to be answered."""
    from flwr.common.serde import message_to_proto
    from flwr.proto.fleet_pb2 import PushMessagesRequest, PushMessagesResponse
    from flwr.supercore.inflatable.inflatable_object import get_object_tree

    told = request.messages_list[0].metadata if request.messages_list else None
    asked = None if told is None else state.get_valid_message_ins(told.reply_to_message_id)
    if told is None or asked is None or int(asked["dst_node_id"]) % 2**64 != request.node.node_id:
        return PushMessagesResponse()
    now = time.time()
    error = error_reply(
        why,
        run_id=int(asked["run_id"]) % 2**64,
        src_node_id=request.node.node_id,
        reply_to_message_id=told.reply_to_message_id,
        created_at=now,
        ttl=asked["created_at"] + asked["ttl"] - now,
        group_id=asked["group_id"],
        message_type=asked["message_type"],
    )
    answer = take(
        PushMessagesRequest(
            node=request.node, messages_list=[message_to_proto(error)], message_object_trees=[get_object_tree(error)]
        ),
        state,
    )
    state.store_object(error.metadata.run_id, answer.session_id, error.metadata.message_id, error.deflate())
    return PushMessagesResponse(reconnect=answer.reconnect, session_id=answer.session_id)


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for found in sockets:
            found.bind((_HOST, 0))
        return [found.getsockname()[1] for found in sockets]


def listens(port: int, wait: Callable[[], None]) -> None:
    """Return as soon as somebody listens on a port; ``wait`` is called between two looks, and may raise."""
    while True:
        try:
            socket.create_connection((_HOST, port), 1).close()
        except OSError:
            wait()
        else:
            return
