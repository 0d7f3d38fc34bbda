"""A SuperLink that has one port for everything: what clients reach, and what only the inner network does."""

import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from aoi_fl.flower.seams import DOORS
from aoi_fl.flower.versions import FLOWER

_OPEN = ("/v1/fleet/", "/health")  # the beginnings of the paths that clients use; each call there is signed
_Scope: TypeAlias = MutableMapping[str, Any]
_Send: TypeAlias = Callable[[_Scope], Awaitable[None]]
_App: TypeAlias = Callable[[_Scope, Callable[[], Awaitable[_Scope]], _Send], Awaitable[None]]


class Doors:
    """ASGI middleware that answers 403 to calls of the Control and Runtime APIs from outside.

    Parameters
    ----------
    app : what answers the other calls
    inner : the address of this machine at which every call is answered
    """

    def __init__(self, app: _App, inner: str) -> None:
        self._app, self._inner = app, inner

    async def __call__(self, scope: _Scope, receive: Callable[[], Awaitable[_Scope]], send: _Send) -> None:
        """Answer a call, or have it answered."""
        at = (scope.get("server") or ("",))[0]
        if scope["type"] == "lifespan" or at == self._inner or scope["path"].startswith(_OPEN):
            await self._app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})


def close_doors(inner: str) -> None:
    """Have a SuperLink in this process answer commands and ServerApps at one of its addresses only.

    Flower asks commands for no password, so this ends the process where Flower cannot be made to.
    """
    if not DOORS.there or DOORS.missing():
        sys.exit(f"Flower {FLOWER}: {DOORS.lost}. This command needs a Flower {DOORS.versions}.")
    from flwr.superlink import extensions
    from starlette.middleware import Middleware

    module: Any = extensions
    others = module.get_middleware
    module.get_middleware = lambda: (Middleware(Doors, inner=inner), *others())
