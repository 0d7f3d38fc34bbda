"""A short way for the calls of clients and ServerApps to a SuperLink over HTTP.

Flower passes each call through nine layers of middleware and FastAPI's dependencies, which take eight times the
processor time of the answer. Here one function reads, authenticates, answers and writes a call. It uses Flower's
parser, checks, handlers and translation of errors, so that the answers are the same. :mod:`.doors` bounds the bodies.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from aoi_fl.flower.doors import App, Receive, Scope, Send, answer, insert, names_host
from aoi_fl.flower.seams import LANE
from aoi_fl.flower.versions import warn_once

_THREADS = 4  # that answer calls of clients, and as many those of ServerApps, which thus wait for no client
_FLEET = (
    "activate-node",
    "confirm-message-received",
    "get-fab",
    "get-run",
    "pull-messages",
    "pull-object",
    "push-messages",
    "push-object",
    "send-node-heartbeat",
)
_RUNTIME = ("confirm-message-received", "get-nodes", "pull-messages", "pull-object", "push-messages", "push-object")


class Lane:
    """ASGI middleware that answers the most frequent calls itself.

    Parameters
    ----------
    app : Flower's application, for all other calls
    """

    def __init__(self, app: App) -> None:
        from flwr.supercore.dependencies.version import VersionDependency
        from flwr.superlink.routers.fleet import node_auth, router

        self._app, self._router, self._node_auth = app, router, node_auth
        self._version: Any = VersionDependency(
            component_name="SuperLink", connection_name="Caller <-> SuperLink Runtime API"
        )
        self._tasks: Any = import_module("flwr.supercore.dependencies.task")
        self._calls: dict[str, Callable[[Any], Awaitable[Any]]] = {}
        for room, names, call in (("fleet", _FLEET, self._fleet), ("runtime", _RUNTIME, self._runtime)):
            threads = ThreadPoolExecutor(_THREADS, room)
            for name in names:
                path = f"/v1/{room}/{name}"
                self._calls[path] = self._answer(path, partial(call, name.replace("-", "_")), threads)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call, or pass it on: calls that an event log records keep Flower's way."""
        if scope["type"] == "http" and not names_host(scope):
            await answer(send, 400)
            return
        call = self._calls.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if call is None or scope["app"].state.fleet_event_log_plugin is not None:
            await self._app(scope, receive, send)
            return
        from flwr.supercore.error.http import http_error_translator
        from starlette.requests import Request

        response = await http_error_translator(Request(scope, receive), call)
        await response(scope, receive, send)

    def _answer(
        self, path: str, call: Callable[[Any], Any], threads: ThreadPoolExecutor
    ) -> Callable[[Any], Awaitable[Any]]:
        from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES, ProtobufTranslationMiddleware
        from starlette.responses import Response

        flowers: Any = ProtobufTranslationMiddleware
        kind = PROTOBUF_REQUEST_TYPES["POST", path]

        async def respond(request: Any) -> Any:
            flowers._check_request_media_type(request)
            request.state.protobuf_request = flowers._parse_request(await request.body(), kind)
            content = await asyncio.get_running_loop().run_in_executor(threads, call, request)
            return Response(content, media_type="application/protobuf")

        return respond

    def _fleet(self, method: str, request: Any) -> Any:
        self._node_auth.authenticate_node(request)
        state = request.app.state.linkstate_factory.state()
        return getattr(self._router, f"fleet_{method}")(request.state.protobuf_request, state).SerializeToString()

    def _runtime(self, method: str, request: Any) -> Any:
        self._version(request)
        state = request.app.state.runtime_state_factory.state()
        token = request.headers.get(self._tasks.TASK_TOKEN_HEADER)
        task = self._tasks.authenticate_task(request, token, state)
        handler = getattr(request.app.state.runtime_handlers, method)
        return handler(request.state.protobuf_request, state, task).SerializeToString()


def _drop_routine(access: Any) -> None:
    """Let a logger skip the calls that Flower's filter hides."""
    told, routine = access.info, import_module("flwr.supercore.http_logging").ROUTINE_ACCESS_PATHS

    def info(text: str, caller: str, method: str, path: str, version: str, status: int) -> None:
        if status >= HTTPStatus.BAD_REQUEST or path.partition("?")[0] not in routine:
            told(text, caller, method, path, version, status)

    access.info = info


@LANE.needed
def shorten_calls() -> None:
    """Let a SuperLink in this process answer frequent calls over HTTP on the short way.

    Flower and uvicorn make a line of the log of each request and then drop it; here the line is not made. Flower's
    enterprise package has checks of its own on the long way, which then stays.
    """
    if find_spec("flwr.ee") is not None:
        warn_once("Flower's enterprise package is installed, so calls over HTTP take Flower's own way, which is slower")
        return
    handlers: Any = import_module("flwr.superlink.servicer.fleet.fleet_handlers")
    handlers.MessageToDict = lambda request: request
    level = import_module("flwr.supercore.logger").console_handler.level
    logging.getLogger("flwr").setLevel(level)
    if level > logging.DEBUG:
        _drop_routine(logging.getLogger("uvicorn.access"))
    insert(Lane)
