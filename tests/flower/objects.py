"""Objects as a node uploads them."""

from flwr.supercore.constant import HEAD_BODY_DIVIDER, HEAD_VALUE_DIVIDER


def deflated(kind: str, children: list[str], body: bytes) -> bytes:
    """Return an object as a node uploads it."""
    return f"{kind}{HEAD_VALUE_DIVIDER}{','.join(children)}{HEAD_VALUE_DIVIDER}{len(body)}".encode() + (
        HEAD_BODY_DIVIDER + body
    )
