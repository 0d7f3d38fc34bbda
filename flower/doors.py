"""Restrict a SuperLink with a single port: clients reach the Fleet API, and nothing else."""

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from aoi_fl.flower.seams import DOORS
from aoi_fl.flower.versions import FLOWER

_OPEN = ("/v1/fleet/", "/health")  # prefixes of the paths that clients use; each of their calls is signed
_OBJECT = "/v1/fleet/push-object"  # Flower's objects have 5 MiB, unless an app stores more in one record
# Bytes of a call's body from outside, and the seconds in which it arrives; it is read before its signature.
_MOST = {_OBJECT: (64 << 20, 600.0)}
_MOST_ELSE = 2 << 20, 60.0
_HOST = re.compile(rb"[A-Za-z0-9._-]*(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")  # in others Flower sees another path
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Scope]]
Send: TypeAlias = Callable[[Scope], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class Doors:
    """ASGI middleware that answers 403 to calls of the Control and Runtime APIs from outside, and bounds all others.

    A body from outside is read here, within its time, so that a caller that stops holds up nothing else.

    Parameters
    ----------
    app : the application that answers all other calls
    inner : this machine's address at which every call is allowed
    """

    def __init__(self, app: App, inner: str) -> None:
        self._app, self._inner = app, inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call with a status of its own, or pass it on."""
        inner = (scope.get("server") or ("",))[0] == self._inner
        if scope["type"] == "lifespan" or (inner and names_host(scope)):
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close"})
        elif status := 400 if inner else _refused(scope):
            await answer(send, status)
        else:
            try:
                async with asyncio.timeout(_MOST.get(scope["path"], _MOST_ELSE)[1]):
                    body = await _body(receive)
            except TimeoutError:
                await answer(send, 408)
                return
            if body is not None:
                first = [body]

                async def received() -> Scope:
                    return {"type": "http.request", "body": first.pop()} if first else await receive()

                await self._app(scope, received, send)


async def _body(receive: Receive) -> bytes | None:
    """Return a call's body; None: the caller has gone."""
    parts = []
    while (message := await receive())["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)
    return None


async def answer(send: Send, status: int) -> None:
    """Answer a call with a status alone, and end its connection."""
    headers = [(b"content-length", b"0"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body"})


def names_host(scope: Scope) -> bool:
    """Return whether each header Host of a call is a name or an address; Flower reads a call's path behind it."""
    return all(_HOST.fullmatch(value) for name, value in scope.get("headers", ()) if name == b"host")


def _refused(scope: Scope) -> int:
    """Return the status that refuses a path, a host, or a body of unknown or excessive length; 0: none."""
    headers = dict(scope["headers"])
    if not scope["path"].startswith(_OPEN):
        return 403
    if b"transfer-encoding" in headers:
        return 411
    size = headers.get(b"content-length", b"0")
    if not size.isdigit() or not names_host(scope):
        return 400
    return 413 if len(size) > 20 or int(size) > _MOST.get(scope["path"], _MOST_ELSE)[0] else 0


def close_doors(inner: str) -> None:
    """Let a SuperLink in this process answer commands and ServerApps at the inner address only.

    Flower does not authenticate commands. So this ends the process where this Flower version does not allow it.
    """
    if not DOORS.there or DOORS.missing():
        sys.exit(f"Flower {FLOWER}: {DOORS.lost}. This command needs Flower {DOORS.on}.")
    insert(Doors, inner=inner)


def insert(kind: Callable[..., App], **settings: Any) -> None:
    """Add ASGI middleware around the application of a SuperLink in this process."""
    from flwr.superlink import extensions
    from starlette.middleware import Middleware

    module: Any = extensions
    get_middleware = module.get_middleware
    module.get_middleware = lambda: (Middleware(kind, **settings), *get_middleware())
