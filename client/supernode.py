"""Flower's SuperNode, which notices when its network is gone.

``python -m client.supernode`` takes what ``flower-supernode`` takes. Flower asks the SuperLink for messages in calls
without a deadline; where the client's address changes (another network, a renewed lease, a container that is connected
again), such a call waits for an answer that cannot come until the system gives the connection up, a quarter of an hour
later or never. gRPC's own keepalive finds out within a minute; the call then fails, and Flower connects anew. It is
patient enough for two cores that eight clients train on: a busy SuperLink is not a dead one.
"""

from collections.abc import Callable
from typing import Any

import grpc

# A SuperNode that works hears of the SuperLink every three seconds, and then nothing is sent to keep it alive.
KEEPALIVE = (
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 30_000),
    ("grpc.http2.ping_timeout_ms", 30_000),  # of the pings that measure the line; none other is sent meanwhile
    ("grpc.http2.max_pings_without_data", 0),
)


def keep_alive(make: Callable[..., grpc.Channel]) -> Callable[..., grpc.Channel]:
    """Return a function that makes channels like ``make``, with keepalive."""

    def channel(*arguments: Any, options: Any = None, **more: Any) -> grpc.Channel:
        return make(*arguments, options=[*(options or ()), *KEEPALIVE], **more)

    return channel


def main() -> None:
    """Run Flower's command with channels that are kept alive."""
    from flwr.supernode.cli import flower_supernode

    grpc.secure_channel, grpc.insecure_channel = keep_alive(grpc.secure_channel), keep_alive(grpc.insecure_channel)
    flower_supernode()


if __name__ == "__main__":
    main()
