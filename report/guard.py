"""Refuse requests under foreign host names, or with too large headers.

An attacker's DNS server can resolve a name to this server (DNS rebinding). A browser's page of that name can then read
this server's answers. Only the ``Host`` header shows the attack. Addresses are not resolved, so they are always
allowed.
"""

import ipaddress
import re
import socket
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_HOST = re.compile(r"(?:\[([^\]]*)\]|([^:]*))(?::\d*)?")  # an address in brackets or a name, and a port
MOST_HEADERS, MOST_BYTES = 100, 16_384  # of one request, with its path


class Guard:
    """ASGI middleware that passes on only allowed requests.

    Parameters
    ----------
    app : the application behind it
    names : allowed host names beside localhost, this machine's name, and addresses
    """

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app = app
        self._names = {name.lower().rstrip(".") for name in ("localhost", socket.gethostname(), *names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http" and (refusal := self._refusal(scope)) is not None:
            await refusal(scope, receive, send)
        elif scope["type"] in ("http", "lifespan"):
            await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        headers = scope["headers"]
        size = len(scope["raw_path"]) + len(scope["query_string"]) + sum(len(k) + len(v) for k, v in headers)
        if len(headers) > MOST_HEADERS or size > MOST_BYTES:
            return PlainTextResponse(f"at most {MOST_HEADERS} headers of {MOST_BYTES} bytes", 431)
        hosts = Headers(scope=scope).getlist("host")
        if len(hosts) != 1:
            return PlainTextResponse("one Host header is needed", 400)
        if not self._known(hosts[0]):
            return PlainTextResponse(
                "This page is not served under that name. Open it under localhost or an address, or start aoi serve "
                "with --allow-host NAME.",
                421,
            )
        return None

    def _known(self, host: str) -> bool:
        found = _HOST.fullmatch(host.strip().lower())
        name = (found[1] or found[2] or "") if found else ""
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return bool(name) and name.rstrip(".") in self._names
        return True
