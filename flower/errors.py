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
    """Return the name of a gRPC error's code, the number of an HTTP error's, or ``""`` for another error.

    Two statuses of HTTP have gRPC's names.
    """
    if (response := getattr(error, "response", None)) is not None:
        return _HTTP.get(response.status_code, str(response.status_code))
    code = getattr(error, "code", None)
    return str(getattr(code(), "name", "")) if callable(code) else ""


def details_of(error: object) -> str:
    """Return what a SuperLink says of an error."""
    if (response := getattr(error, "response", None)) is not None:
        return str(response.text)
    details = getattr(error, "details", None)
    return str((callable(details) and details()) or error)


def is_busy(error: object) -> bool:
    """Return whether a SuperLink refused a call because it is busy, so that a retry succeeds."""
    return code_of(error) in _BUSY and "larger than max" not in details_of(error)  # gRPC has one code for both
