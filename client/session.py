"""The session of a client with its SuperLink, on file for its next SuperNode.

A SuperLink counts a node as connected for as long as its last heartbeat has named, an hour at most, and refuses its
key meanwhile: after a power cut, or a process that has ended to come back when its round is due. The next process
knows the node's number from here, and ends that session itself.

The file is one line, for a shell to read: when to come back, until when no message can come, both in seconds since
1970, and the node's number; 0 is none.
"""

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import grpc
from cryptography.hazmat.primitives import serialization

from aoi_fl.client.poll_schedule import LONGEST_SILENCE, NextMessage, lasting
from aoi_fl.flower.seams import FLEET
from aoi_fl.science.errors import ConfigError

if TYPE_CHECKING:
    from aoi_fl.flower.fleet import FleetApi

Heard: TypeAlias = Callable[[NextMessage, int], None]  # told what is known of the next message, and the node's number

FILE = "session"  # beside a client's state
_LAST_TIME = 2.0**33  # seconds since 1970: a date, in the year 2242, that clocks can tell
SHORTEST_ABSENCE = 300.0  # seconds; for less a SuperNode does not end
LEAD = 90.0  # seconds before its nap is over that it is to come back: a timer's minute, and those of a start


def back(path: Path) -> float:
    """Return when the SuperNode that wrote a file is to be back, in seconds since 1970; 0: it has not left."""
    with suppress(OSError):
        return _read(path.read_bytes())[0]
    return 0.0


class Session:
    """The file, which belongs to one SuperNode for as long as that lives.

    Parameters
    ----------
    path : of the file; made if it is not there

    Attributes
    ----------
    node : the number of the node that was connected last; 0: unknown
    until : seconds since 1970 until which no message can come

    Raises
    ------
    ConfigError : another process of this client is alive, or the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            allowed = "held by one SuperNode, and another one of this client is running"
            raise ConfigError("state-dir", path, allowed, "End the other SuperNode first.") from None
        except OSError as error:
            raise ConfigError(
                "--session", path, f"a file that you can write ({error.strerror})", "Choose another file."
            ) from error
        _, self.until, self.node = _read(self._file.read())

    def end_former(self, fleet: "FleetApi") -> None:
        """End the former session of this client, if it is known and still open."""
        if self.node:
            with suppress(grpc.RpcError):  # it is over, or the SuperLink is away
                fleet.deactivate(self.node)

    def connected(self, node: int) -> None:
        """Note the node of this client."""
        if node != self.node or self.until:
            self._write(0.0, 0.0, node)

    def leave(self, fleet: "FleetApi", until: float) -> bool:
        """Announce the return to the SuperLink and record its time; False without time or connection.

        ``until`` is in seconds since 1970, the time before which no message can come.
        """
        left = until - time.time()
        if not self.node or left < SHORTEST_ABSENCE:
            return False
        try:
            fleet.stay(self.node, lasting(left))
        except grpc.RpcError:
            return False
        self._write(time.time() + min(left, LONGEST_SILENCE) - LEAD, until, self.node)
        return True

    def _write(self, returns: float, until: float, node: int) -> None:
        line = f"{returns:.0f} {until:.0f} {node}\n".encode()
        self._file.seek(0)
        self._file.write(line)
        self._file.truncate()
        os.fsync(self._file)
        self.node, self.until = node, until


def _read(line: bytes) -> tuple[float, float, int]:
    """Return what the file holds; zeros if that is no such line, or one cut off by a power cut."""
    with suppress(ValueError):
        returns, until, node = line.split()
        found = float(returns), float(until), int(node)
        if all(0 <= when < _LAST_TIME for when in found[:2]) and 0 <= found[2] < 2**64:
            return found
    return 0.0, 0.0, 0


def take_up(
    path: Path, superlink: str, authority: Path, key: Path, leave: Callable[[str], NoReturn] | None
) -> Heard | None:
    """End the former session of this client, and return the function that records the new one.

    Parameters
    ----------
    path : of the file
    superlink, authority, key : the Fleet API, the file of certificates to trust, and that of the client's private key
    leave : ends this process, where no message can arrive for long, and says so; None: it stays

    Returns
    -------
    What is to be told when all messages are answered. None where Flower's Fleet API cannot be spoken.

    Raises
    ------
    ConfigError : see :class:`Session`.
    """
    if not FLEET.there:
        FLEET.say_what_is_lost()
        return None
    from aoi_fl.flower.fleet import FleetApi

    session = Session(path)
    private = serialization.load_ssh_private_key(key.read_bytes(), None)
    channel = grpc.secure_channel(superlink, grpc.ssl_channel_credentials(authority.read_bytes()))
    fleet = FleetApi(channel, private)  # type: ignore[arg-type]  # another key Flower refuses
    if leave is not None and session.leave(fleet, session.until):
        leave("it only renewed its registration")
    session.end_former(fleet)

    def heard(told: NextMessage, node: int) -> None:
        session.connected(node)
        if leave is not None and told.asleep and session.leave(fleet, time.time() + (told.nap or 0.0)):
            leave(f"no message can arrive for {told.nap:.0f} s")

    return heard
