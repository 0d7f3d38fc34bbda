"""Codes and texts of Flower's error replies."""

from flwr.common.constant import ErrorCode

CLIENT_APP_CRASHED: int = ErrorCode.CLIENT_APP_CRASHED
CLIENT_APP_RAISED: int = ErrorCode.CLIENT_APP_RAISED_EXCEPTION
DECLINED: int = ErrorCode.UNKNOWN  # a client that could answer, and does not now
MESSAGE_UNAVAILABLE: int = ErrorCode.MESSAGE_UNAVAILABLE
NO_HELLO = "No query function registered with name 'hello'"  # error of Flower's own ClientApp
FORMER_APP = "Invalid message type: query.hello"  # error of an app with Flower's former client_fn interface
NODE_UNAVAILABLE: int = ErrorCode.NODE_UNAVAILABLE
_HTTP = {401: "UNAUTHENTICATED", 500: "INTERNAL"}  # gRPC's names of statuses
_BUSY = frozenset(("RESOURCE_EXHAUSTED", "CANCELLED"))


def known_code(code: int) -> int:
    """Return a code of Flower's errors unchanged, and UNKNOWN for any other number."""
    return code if code in {v for v in vars(ErrorCode).values() if type(v) is int} else int(ErrorCode.UNKNOWN)


def code_of(error: object) -> str:
    """Return the name of a gRPC error's code, or ``""`` for another error; over HTTP two statuses have gRPC's names."""
    if (name := _HTTP.get(getattr(getattr(error, "response", None), "status_code", 0))) is not None:
        return name
    code = getattr(error, "code", None)
    return str(getattr(code(), "name", "")) if callable(code) else ""


def is_busy(error: object) -> bool:
    """Return whether a SuperLink refused a call because it is busy, so that a retry succeeds."""
    details = getattr(error, "details", None)
    too_large = callable(details) and "larger than max" in str(details())  # gRPC has one code for both
    return code_of(error) in _BUSY and not too_large
