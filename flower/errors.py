"""What Flower's error replies mean: the codes that are told apart."""

from flwr.common.constant import ErrorCode

CLIENT_APP_RAISED: int = ErrorCode.CLIENT_APP_RAISED_EXCEPTION
MESSAGE_UNAVAILABLE: int = ErrorCode.MESSAGE_UNAVAILABLE
NO_HELLO = "No query function registered with name 'hello'"  # what a ClientApp says that is Flower's own
FORMER_APP = "Invalid message type: query.hello"  # what one says whose client_fn is of Flower's former interface
NODE_UNAVAILABLE: int = ErrorCode.NODE_UNAVAILABLE
_BUSY = frozenset(("RESOURCE_EXHAUSTED", "CANCELLED"))


def code_of(error: object) -> str:
    """Return the name of a gRPC error's code; an empty text for another error."""
    code = getattr(error, "code", None)
    return str(getattr(code(), "name", "")) if callable(code) else ""


def is_busy(error: object) -> bool:
    """Tell whether a SuperLink has too many calls to take this one, so that a later try succeeds."""
    details = getattr(error, "details", None)
    too_large = callable(details) and "larger than max" in str(details())  # gRPC has one code for both
    return code_of(error) in _BUSY and not too_large
