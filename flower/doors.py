"""Restrict a SuperLink with a single port: clients reach the Fleet API, and nothing else."""

import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from aoi_fl.flower.seams import DOORS
from aoi_fl.flower.versions import FLOWER

_OPEN = ("/v1/fleet/", "/health")  # prefixes of the paths that clients use; each of their calls is signed
_OBJECT = "/v1/fleet/push-object"  # Flower's objects have 5 MiB, unless an app stores more in one record
_MOST = {_OBJECT: 64 << 20}  # bytes of a call's body from outside, which are read before its signature
_MOST_ELSE = 2 << 20
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Scope]]
Send: TypeAlias = Callable[[Scope], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class Doors:
    """ASGI middleware that answers 403 to calls of the Control and Runtime APIs from outside, and bounds all others.

    Parameters
    ----------
    app : the application that answers all other calls
    inner : this machine's address at which every call is allowed
    """

    def __init__(self, app: App, inner: str) -> None:
        self._app, self._inner = app, inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call with 403, or pass it on."""
        at = (scope.get("server") or ("",))[0]
        if scope["type"] == "lifespan" or at == self._inner:
            status = 0
        elif scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        else:
            status = 403 if not scope["path"].startswith(_OPEN) else _refused(scope)
        if not status:
            await self._app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})


def _refused(scope: Scope) -> int:
    """Return the status that refuses a body of unknown or excessive length; 0: none."""
    headers = dict(scope["headers"])
    if b"transfer-encoding" in headers:
        return 411
    return 413 if int(headers.get(b"content-length", b"0")) > _MOST.get(scope["path"], _MOST_ELSE) else 0


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
