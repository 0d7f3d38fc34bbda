"""Addresses of Flower's programs, and changes to a SuperLink's database access and its intake of replies."""

import copy
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import lru_cache, partial, wraps
from importlib import import_module
from math import isfinite
from typing import Any

import grpc

from aoi_fl.flower.replies import error_reply, most_objects, objects_in
from aoi_fl.flower.seams import (
    ANSWERS,
    AUTH,
    DATABASE,
    HANDLERS,
    INTAKE,
    KEYS,
    LINES,
    THREADS,
)
from aoi_fl.flower.versions import OVER_GRPC

TURN = 60.0  # seconds that a call waits for its turn at the database
_HOST = "127.0.0.1"
_UNKNOWN = 5000  # largest number of objects of a reply, if this process has not seen the run's messages
_LARGEST = 1e12  # seconds
_KEPT = 1.0  # seconds that the cache keeps the database's answers
_WAITING = 20_000  # calls that may wait for their turn
_THREADS = 4  # that answer the calls of an API
_KEYS = 10_000  # parsed public keys that are kept
# Methods whose answers are kept, and methods that change a run's status or a FAB.
_QUESTIONS = ("get_run_status", "get_run_info", "get_fab", "get_task_by_token")
_CHANGES = (
    "create_run",
    "claim_task",
    "activate_task",
    "finish_task",
    "_on_task_tokens_expired",
    "store_fab",
    "store_app",
)


def own_address(port: int | str, host: str = _HOST) -> list[str]:
    """Return the arguments of a ``flower-supernode`` that serves its apps on a port; 0: any that is free."""
    if OVER_GRPC:
        return [f"--clientappio-api-address={host}:{port}"]
    return [f"--host={host}", f"--port={int(port) or free_ports(1)[0]}"]


def apps_address(address: str) -> list[str]:
    """Return the arguments of a ``flower-superexec`` that runs the apps of the SuperNode at an address."""
    if OVER_GRPC:
        return ["--appio-api-address", address, "--plugin-type", "clientapp"]
    return ["--runtime-api-address", address]


@DATABASE.needed
def connect_once() -> None:
    """Let a SuperLink in this process use one database connection; Flower uses up to fifteen.

    SQLite lets one connection write at a time. The others sleep, up to a tenth of a second at a time, and fail after
    five seconds ("database is locked"). Connections beyond the fifth are opened again for each call. With one
    connection a thousand clients are answered one and a half times as fast.
    """
    from flwr.supercore import sql_mixin

    module: Any = sql_mixin
    make = module.create_engine

    def create_engine(url: str, **settings: Any) -> Any:
        if "poolclass" not in settings:  # only a database in memory sets it, and has one connection already
            settings |= {"pool_size": 1, "max_overflow": 0, "pool_timeout": TURN}
        return make(url, **settings)

    module.create_engine = create_engine


class _Kept:
    """A cache of the database's answers, valid for a second or until a change in this process."""

    def __init__(self) -> None:
        self._lock, self._changes = threading.Lock(), 0
        self._answers: dict[Any, tuple[float, Any]] = {}

    def get(self, question: Any, ask: Callable[[], Any]) -> Any:
        """Return the answer to a question from the cache, or ask; empty answers are not cached."""
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
        """Forget all answers, and do not cache the pending ones."""
        with self._lock:
            self._changes += 1
            self._answers.clear()


@ANSWERS.needed
def keep_answers() -> None:
    """Let a SuperLink in this process cache for a second the queries that every call makes.

    Each call queries a run's status, and that query writes: it ends the tasks of silent processes. Here tasks end once
    a second. Status, run, FAB and the task of a token are cached for a second, or until a task or a FAB changes. A
    run's traffic may lag by a second.
    """
    from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState

    state: Any = SqlLinkState
    expire = state._cleanup_expired_task_tokens

    def kept(self: Any) -> _Kept:
        cache: _Kept = vars(self).setdefault("_aoi_kept", _Kept())
        return cache

    def keeping(ask: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(ask)
        def asked(self: Any, *of: Any, **more: Any) -> Any:
            return _copied(kept(self).get((ask, repr((of, more))), lambda: ask(self, *of, **more)))

        return asked

    def forgetting(change: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(change)
        def changed(self: Any, *of: Any, **more: Any) -> Any:
            try:
                return change(self, *of, **more)
            finally:
                kept(self).forget()

        return changed

    for change, names in ((keeping, _QUESTIONS), (forgetting, _CHANGES)):
        for name in names:
            setattr(state, name, change(getattr(state, name)))
    state._cleanup_expired_task_tokens = keeping(lambda self: expire(self) or True)


def _copied(answer: Any) -> Any:
    """Return a copy of what a caller may change."""
    if isinstance(answer, list):
        return [*map(copy.copy, answer)]
    return answer.copy() if isinstance(answer, dict) else answer


@KEYS.needed
def read_once() -> None:
    """Let a SuperLink in this process parse each public key and each Flower version once, not in every call.

    A parsed key proves nothing: the signature, its time and the key's registration are still checked in each call.
    """
    from flwr.supercore import runtime_version_compatibility

    keys: Any = import_module(AUTH)
    versions: Any = runtime_version_compatibility
    keys.bytes_to_public_key = lru_cache(_KEYS)(keys.bytes_to_public_key)
    versions.Version = lru_cache(_KEYS)(versions.Version)


def let_calls_wait() -> None:
    """Let this process's gRPC servers queue 20,000 calls; by default they refuse above 1000."""
    serve = grpc.server
    waiting = [
        ("grpc.server.max_pending_requests", _WAITING),
        ("grpc.server.max_pending_requests_hard_limit", _WAITING),
        ("grpc.server_max_unrequested_time_in_server", int(TURN)),
    ]

    def server(*of: Any, options: Any = None, maximum_concurrent_rpcs: int | None = None, **more: Any) -> grpc.Server:
        most_at_once = None if maximum_concurrent_rpcs is None else max(_WAITING, maximum_concurrent_rpcs)
        return serve(*of, options=[*(options or ()), *waiting], maximum_concurrent_rpcs=most_at_once, **more)

    grpc.server = server


@THREADS.needed
def use_few_threads() -> None:
    """Let a SuperLink in this process answer nodes and ServerApps with few threads each, instead of a thousand.

    Their calls wait for nothing but the database, which serves one at a time. More threads only contend for Python's
    lock. The Control API keeps Flower's threads, because each reader of a log occupies one.
    """
    for name in ("flwr.superlink.cli.flower_superlink", "flwr.superlink.servicer.runtime.runtime_grpc"):
        api: Any = import_module(name)
        api.generic_create_grpc_server = partial(api.generic_create_grpc_server, max_concurrent_workers=_THREADS)


@LINES.needed
def log_no_looks() -> None:
    """Let a SuperLink in this process log no line for each look of a client, except at the level DEBUG.

    Flower logs one at the level INFO, and makes all lines of the level DEBUG before it drops them.
    """
    from flwr.common.logger import FLOWER_LOGGER
    from flwr.server.superlink.fleet.grpc_rere import fleet_servicer

    shown = min(handler.level for handler in FLOWER_LOGGER.handlers)
    if shown <= logging.DEBUG:
        return
    FLOWER_LOGGER.setLevel(shown)
    servicer: Any = fleet_servicer
    log = servicer.log

    def without_looks(level: int, text: str, *about: Any) -> None:
        if not text.startswith("[Fleet.PullMessages]"):
            log(level, text, *about)

    servicer.log, servicer.MessageToDict = without_looks, lambda request: request


@INTAKE.needed
def refuse_strange_replies() -> None:
    """Let a SuperLink in this process replace harmful replies by error replies.

    A reply with many more objects than the ServerApp's messages blocks the database for minutes. A reply with an
    invalid time makes the SuperLink fail in every call that names it. A reply in another node's name, or of another
    run, is not stored at all.
    """
    from flwr.superlink.servicer.runtime import runtime_handlers

    handler: Any = import_module(HANDLERS)
    runtime: Any = runtime_handlers
    take, send, sizes = handler.push_messages, runtime.push_messages, dict[int, int]()

    def push_from_app(request: Any, state: Any, task: Any) -> Any:
        counts = [len(objects_in(tree)) for tree in request.message_object_trees]
        sizes[task.run_id] = max([sizes.get(task.run_id, 0), *counts])
        return send(request, state, task)

    def push_from_node(request: Any, state: Any) -> Any:
        why = _strange(request, sizes)
        return take(request, state) if why is None else _error_in_place(request, state, take, why)

    handler.push_messages, runtime.push_messages = push_from_node, push_from_app


def _strange(request: Any, sizes: Mapping[int, int]) -> str | None:
    """Return the reason to refuse a node's reply, or None."""
    if len(request.messages_list) != 1 or len(request.message_object_trees) != 1:
        return "it sends several replies at once"
    metadata = request.messages_list[0].metadata
    if metadata.src_node_id != request.node.node_id:
        return "it replies in another node's name"
    for number in (metadata.ttl, metadata.created_at, *request.clientapp_runtime_list):
        if not (isfinite(number) and abs(number) < _LARGEST):
            return f"a time in its reply is {number}"
    most = most_objects(sizes[metadata.run_id]) if metadata.run_id in sizes else _UNKNOWN
    if len(objects_in(request.message_object_trees[0], most)) > most:
        return f"its reply is made of more than {most} objects"
    return None


def _error_in_place(request: Any, state: Any, take: Callable[[Any, Any], Any], why: str) -> Any:
    """Store an error reply if the node had a message, and return the answer to the node."""
    from flwr.common.serde import message_to_proto
    from flwr.proto.fleet_pb2 import PushMessagesRequest, PushMessagesResponse
    from flwr.supercore.inflatable.inflatable_object import get_object_tree

    metadata = request.messages_list[0].metadata if request.messages_list else None
    message = None if metadata is None else state.get_valid_message_ins(metadata.reply_to_message_id)
    if metadata is None or message is None or int(message["dst_node_id"]) % 2**64 != request.node.node_id:
        return PushMessagesResponse()
    now = time.time()
    error = error_reply(
        why,
        run_id=int(message["run_id"]) % 2**64,
        src_node_id=request.node.node_id,
        reply_to_message_id=metadata.reply_to_message_id,
        created_at=now,
        ttl=message["created_at"] + message["ttl"] - now,
        group_id=message["group_id"],
        message_type=message["message_type"],
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
    """Return ``count`` unused ports."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((_HOST, 0))
        return [each.getsockname()[1] for each in sockets]
