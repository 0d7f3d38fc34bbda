"""Calls to the APIs of a SuperLink, over gRPC or HTTP, with one error."""

from collections.abc import Callable
from typing import Any, TypeAlias

import grpc

from aoi_fl.flower.errors import code_of, details_of

_SECONDS = 10.0  # for one call
_AWAY = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "502", "503", "504")
_REFUSED = ("FAILED_PRECONDITION", "4")  # beginnings of codes
Call: TypeAlias = Callable[[str, Any], Any]  # a method's name and its request; returns the answer


class CallError(Exception):
    """The SuperLink does not answer, or refuses the call.

    Attributes
    ----------
    code : the name of gRPC's status, or the number of HTTP's
    away : whether the SuperLink does not answer, so that a later call may succeed
    refused : whether the SuperLink does not take what was sent
    """

    def __init__(self, details: str, code: str = "UNAVAILABLE") -> None:
        super().__init__(details)
        self.code = code
        self.away, self.refused = code in _AWAY, code.startswith(_REFUSED)


def over_grpc(stub: Callable[[grpc.Channel], Any], address: str, authority: bytes | None, sign: Any = list) -> Call:
    """Return the calls of an API over gRPC.

    Parameters
    ----------
    stub : makes Flower's stub of a channel
    address, authority : host and port, and the certificates to trust (PEM); None: without TLS
    sign : returns the metadata of a call
    """
    if authority is None:
        api = stub(grpc.insecure_channel(address))
    else:
        api = stub(grpc.secure_channel(address, grpc.ssl_channel_credentials(authority)))
    return _named(
        lambda method, request: getattr(api, method)(request, metadata=sign(), timeout=_SECONDS), grpc.RpcError
    )


def over_http(client: Any, address: str, authority: bytes | None, interceptor: Any) -> Call:
    """Return the calls of an API over HTTP, by Flower's class of its clients."""
    import httpx  # comes with that Flower; and what answers may be no SuperLink

    api = client.from_server_address(address, authority is None, authority, [interceptor])
    return _named(lambda method, request: getattr(api, method)(request), (httpx.HTTPError, ValueError))


def _named(ask: Call, failures: type[Exception] | tuple[type[Exception], ...]) -> Call:
    def call(method: str, request: Any) -> Any:
        try:
            return ask(method, request)
        except failures as error:
            raise CallError(details_of(error), code_of(error) or "UNAVAILABLE") from error

    return call
