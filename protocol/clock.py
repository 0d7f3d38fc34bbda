"""What time it is for a strategy: the machine's time, unless the grid brings a clock of its own.

A grid that simulates time has an attribute ``clock``. Deadlines and waits of a round are by it, and a strategy need
not know.
"""

import math
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from flwr.app import Message
from flwr.serverapp import Grid

from aoi_fl.protocol.records import State
from aoi_fl.science.selection import Foresight

ROUND_TRIP = 1.0  # seconds that a message and its reply take besides
FIRST = "first"  # the purpose of the draw that orders simultaneous updates


class Clock:
    """The machine's time; a clock of simulated time overrides all of it.

    Attributes
    ----------
    foresight : future of the devices by client number, for policies with foresight; None: unknown
    """

    foresight: Foresight | None = None

    @property
    def simulated(self) -> float | None:
        """Seconds of the run up to now, those before a break too; None where time is not simulated."""
        return None

    def now(self) -> float:
        """Return seconds from a moment that stays the same."""
        return time.monotonic()

    def wait(self, message_ids: Collection[str], count: int, seconds: float, until: float) -> None:
        """Wait for replies, not past ``until``.

        Parameters
        ----------
        message_ids : what is to be replied to
        count : how many replies the caller has a use for now
        seconds : after which it wants to look, where the clock does not know when replies come
        until : by :meth:`now`
        """
        time.sleep(max(0.0, min(seconds, until - time.monotonic())))

    @contextmanager
    def as_of(self, seconds: float) -> Iterator[None]:
        """Let what is sent meanwhile have been sent at a second of the run; real messages are sent now."""
        yield

    def came(self, reply: Message) -> float:
        """Return when a reply came that has just been pulled."""
        return time.monotonic()

    def worked(self, message_id: str) -> float | None:
        """Return the seconds that a client's device has worked on a message; None: unknown."""
        return None

    def stops(self, message_id: str) -> float:
        """Return the time at which a client's device stops work on a message; infinite: unknown."""
        return math.inf

    def arrives(self, message_id: str) -> float:
        """Return the time at which an awaited reply arrives; infinite: unknown."""
        return math.inf

    def foresee(self, message_ids: Collection[str]) -> list[str]:
        """Return the messages with a reply, and let these be fetched now; none: unknown."""
        return []

    def state_dict(self) -> State:
        """Return what a run must know of the time to go on."""
        return {}

    def load_state_dict(self, memory: State) -> None:
        """Take back what :meth:`state_dict` returned."""


MACHINE = Clock()


def clock_of(grid: Grid) -> Clock:
    """Return the grid's own clock, or the machine's."""
    return getattr(grid, "clock", MACHINE)
