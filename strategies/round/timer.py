"""How long rounds take, kept where the operator has set it, and how often to look: what clients are told of it.

A client that wakes up too late holds up the round, one that wakes up too early only looks a few times more. So what
is told is what a round takes at least: were it the mean, each round would wait for whoever was told most, and the next
clients would be told more still.

A look that finds nothing costs Flower's SuperLink 3 ms, ours half a millisecond, and each four times as much when it
is busy. Two hundred clients that look every three seconds leave Flower's no time for anything else, not even for the
heartbeats of a ServerApp, which it then gives up. So where clients are many, they are told to look less often: looks
take a share of the SuperLink's time, by the seconds that it takes to answer the ServerApp.
"""

import logging
import math
import time
from collections import deque
from collections.abc import Callable

import numpy as np

from aoi_fl.science.errors import ConfigError

logger = logging.getLogger("flwr")
_REMEMBERED = 16  # rounds
_TURN = 10.0  # seconds of a wait, after each of which somebody else has a turn
_ENOUGH = 3  # rounds before anything is told
_USUAL = 8  # rounds before it is said that they take longer than they should
_LONGER = 1.1  # times what is set, which is worth saying
_SHARE = 0.25  # of the remembered rounds that were shorter than what is told
_LOOKS, _MOST_LOOKS = 15.0, 60.0  # a second, of all clients together: at least, and at most
_LOOK_SHARE = 0.15  # of the SuperLink's time, for looks
_FEW = 0.5  # seconds between two looks, up to which nothing needs to be told


class RoundTimer:
    """Measures and keeps the seconds from the start of a round to the start of the next.

    Parameters
    ----------
    seconds : a round begins no sooner than so many seconds after the one before it; 0: at once
    clock, sleep : of seconds

    Raises
    ------
    ConfigError
        ``seconds`` is negative, or no finite number.
    """

    def __init__(
        self,
        seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not 0 <= seconds < float("inf"):
            raise ConfigError("round-seconds", seconds, "at least 0", "Give 0 for rounds without a pause.")
        self._least, self._clock, self._sleep = float(seconds), clock, sleep
        self._last: float | None = None
        self._lengths: deque[float] = deque(maxlen=_REMEMBERED)
        self._typical = 0.0  # the quantile of the lengths: every message asks for it
        self._said = False

    def begin(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Wait until a round may begin, and note when it does; ``meanwhile`` is called now and then in a long wait."""
        now = self._clock()
        if self._last is not None:
            while (early := self._last + self._least - now) > 0:
                self._sleep(min(early, _TURN))
                if early > _TURN:
                    meanwhile()
                now = self._clock()
            self._lengths.append(now - self._last)
            self._typical = float(np.quantile(self._lengths, _SHARE))
            self._check()
        self._last = now

    @property
    def seconds(self) -> float | None:
        """What a round takes at least, by those that were seen; None as long as too few were and none is set."""
        if len(self._lengths) < _ENOUGH:
            return self._least or None
        return max(self._least, self._typical)

    def _check(self) -> None:
        """Say once that rounds take longer than what was set, if most of them do."""
        if self._said or not self._least or len(self._lengths) < _USUAL:
            return
        usual, most = np.quantile(self._lengths, (0.5, 0.9)).tolist()
        if usual > _LONGER * self._least:
            self._said = True
            logger.warning(
                "Rounds take %.3g s, longer than round-seconds=%g: sleeping clients wake up too early, and "
                "look for messages until their round begins. With many clients, set round-seconds=%d.",
                usual, self._least, math.ceil(most),
            )  # fmt: skip


def between_looks(clients: int, latency: float | None = None) -> float | None:
    """Return the poll interval for so many clients, in seconds; None if they are few.

    ``latency`` is the seconds of a small call to the SuperLink; None: unknown.
    """
    looks = _LOOKS if not latency else min(_MOST_LOOKS, max(_LOOKS, _LOOK_SHARE / latency))
    seconds = clients / looks
    return seconds if seconds > _FEW else None
