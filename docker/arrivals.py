"""Wait for the SuperLink and for clients."""

import socket
import time
from contextlib import suppress
from pathlib import Path

from aoi_fl.docker.nodes import ClusterNodes, say
from aoi_fl.flower.calls import CallError
from aoi_fl.flower.versions import OVER_GRPC
from aoi_fl.science.errors import AoiError, NodesError

AUTHORITY = Path("/pki/trust/ca.crt")
CONTROL = f"superlink-control:{9093 if OVER_GRPC else 9092}"  # over HTTP all share one port
LOOK = 2.0  # seconds between two polls of the SuperLink
CALM = 8.0  # seconds without a new client container, after which Compose has started all of them


def replicas() -> int:
    """Return the number of running client containers, by the addresses of their common name."""
    try:
        return len({entry[4][0] for entry in socket.getaddrinfo("client", 9092, type=socket.SOCK_STREAM)})
    except socket.gaierror:
        return 0


def await_replicas(seconds: float) -> int:
    """Return the number of client containers once Compose, which waits for a healthy SuperLink, has started all.

    Raises
    ------
    NodesError : none has started within ``seconds``.
    """
    count, since = replicas(), time.monotonic()
    end = since + seconds
    while not count or time.monotonic() - since < CALM:
        if not count and time.monotonic() > end:
            raise NodesError(
                f"no client container has started for {seconds:g} s (AOI_JOIN_TIMEOUT). See `docker compose ps`, start "
                "some (`--scale client=N`), or set AOI_NUM_CLIENTS to the number of clients elsewhere."
            )
        time.sleep(LOOK / 2)
        if (now := replicas()) != count:
            count, since = now, time.monotonic()
    return count


def await_superlink(nodes: ClusterNodes, seconds: float) -> None:
    """Wait for the SuperLink, and remove the marks of lost keys.

    Raises
    ------
    AoiError : the SuperLink has not answered in time.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            nodes.control.runs()
            nodes.forget_lost()
            return
        except CallError:  # it restarts
            if time.monotonic() > end:
                raise AoiError(
                    f"the SuperLink has not answered for {seconds:g} s (AOI_JOIN_TIMEOUT). Read its log: "
                    "`docker compose logs superlink`."
                ) from None
        time.sleep(LOOK)


def await_clients(nodes: ClusterNodes, wanted: int, least: int, seconds: float) -> None:
    """Enrol clients and wait until all are connected.

    Parameters
    ----------
    nodes, wanted, seconds : the clients, their number, and the longest wait
    least : number of clients that is enough after that time

    Raises
    ------
    NodesError : fewer clients have connected in time.
    """
    end, reported = time.monotonic() + seconds, -1
    while True:
        names = set[str]()
        with suppress(CallError):  # the SuperLink restarts
            nodes.enrol()
            names = nodes.connected()
        count = len(names)
        if count != reported:
            say(f"{count} of {wanted} clients are connected")
            reported = count
        if count >= wanted:
            return
        if time.monotonic() > end:
            if count >= least:
                return
            missing = ", ".join(sorted({*nodes.names()} - names)) or "none"
            raise NodesError(
                f"{count} of {wanted} clients are connected after {seconds:g} s (AOI_JOIN_TIMEOUT). Enrolled, but not "
                f"connected: {missing}. See `docker compose logs client`, start more (`--scale client=N`), or lower "
                "AOI_NUM_CLIENTS."
            )
        time.sleep(LOOK)
