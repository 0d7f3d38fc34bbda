"""The session of a client with its SuperLink, stored in a file for its next SuperNode.

A SuperLink counts a node as connected for up to an hour, as its last heartbeat says, and meanwhile refuses its key.
This affects a process after a power cut, or a process that starts when its round is due. The next process reads the
node's id from this file and ends the old session.

The file is one line that a shell can read: time of the return, time before which no message can arrive, both in seconds
since 1970, and the node's id. A 0 means none.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from aoi_fl.client.device.keys import private_key
from aoi_fl.client.poll_schedule import LONGEST_SILENCE, NextMessage, lasting
from aoi_fl.client.state import lock
from aoi_fl.flower.calls import CallError
from aoi_fl.protocol.files import read_regular
from aoi_fl.science.errors import ConfigError, refusing

if TYPE_CHECKING:
    from aoi_fl.flower.fleet import FleetApi

Heard: TypeAlias = Callable[[NextMessage, int], None]  # called with the next message's time and the node's id

FILE = "session"  # beside a client's state
_LAST_TIME = 2.0**33  # seconds since 1970, in the year 2242
SHORTEST_ABSENCE = 300.0  # seconds; a SuperNode does not end for less
LEAD = 90.0  # seconds between the return and the end of the nap: the timer's minute and the start


class Session:
    """The session file, locked by one SuperNode while it runs.

    Parameters
    ----------
    path : path of the file, which is created if missing

    Attributes
    ----------
    node : the id of the last connected node; 0: unknown
    until : seconds since 1970 before which no message can arrive

    Raises
    ------
    ConfigError : another process of this client is running, or the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        with refusing(OSError, "--session", path, "a file that you can write", "Choose another file."):
            try:
                self._file = lock(path, 0.0)
            except BlockingIOError:
                allowed = "held by one SuperNode, and another one of this client is running"
                raise ConfigError("state-dir", path, allowed, "End the other SuperNode first.") from None
        _, self.until, self.node = _read(self._file.read())

    def end_former(self, fleet: "FleetApi") -> None:
        """End this client's former session, if it is known and still open."""
        if self.node:
            with suppress(CallError):  # it has ended, or the SuperLink is unavailable
                fleet.deactivate(self.node)

    def connected(self, node: int) -> None:
        """Record this client's connected node."""
        if node != self.node or self.until:
            self._write(0.0, 0.0, node)

    def leave(self, fleet: "FleetApi", until: float) -> bool:
        """Announce the return to the SuperLink and record its time.

        ``until``, in seconds since 1970, is the time before which no message can arrive. Return False if that is too
        soon or the SuperLink cannot be reached.
        """
        left = until - time.time()
        if not self.node or left < SHORTEST_ABSENCE:
            return False
        try:
            fleet.stay(self.node, lasting(left))
        except CallError:
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
    """Return the values of the file's line; zeros if the line is invalid or incomplete."""
    with suppress(ValueError):
        returns, until, node = line.split()
        values = float(returns), float(until), int(node)
        if all(0 <= when < _LAST_TIME for when in values[:2]) and 0 <= values[2] < 2**64:
            return values
    return 0.0, 0.0, 0


def take_up(path: Path, superlink: str, authority: Path, key: Path, leave: Callable[[str], NoReturn] | None) -> Heard:
    """End the former session of this client, and return the function that records the new one.

    Parameters
    ----------
    path : path of the session file
    superlink, authority, key : the Fleet API, the file of trusted certificates, and the file of the client's private
        key
    leave : ends this process with a reason if no message can arrive for long; None: the process stays

    Returns
    -------
    A function to call when all messages are answered.

    Raises
    ------
    ConfigError : see :class:`Session`.
    """
    from aoi_fl.flower.fleet import FleetApi

    session = Session(path)
    fleet = FleetApi(superlink, read_regular(authority), private_key(key))
    if leave is not None and session.leave(fleet, session.until):
        leave("it only renewed its registration")
    session.end_former(fleet)

    def heard(following: NextMessage, node: int) -> None:
        session.connected(node)
        if leave is not None and following.asleep and session.leave(fleet, time.time() + (following.nap or 0.0)):
            leave(f"no message can arrive for {following.nap:.0f} s")

    return heard
