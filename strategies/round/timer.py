"""The duration of rounds, kept to the operator's setting, and the interval between two looks for messages.

A client that wakes up too late delays the round; one that wakes up too early only looks a few times more. Clients
therefore receive the shortest duration of a round. With the mean, each round would wait for the longest sleeper, and
the next clients would receive a longer duration still.

A look without a message costs Flower's SuperLink 3 ms and ours half a millisecond, four times as much when busy. Two
hundred clients that look every three seconds leave Flower's SuperLink no time for the heartbeats of a ServerApp, which
it then drops. Many clients therefore look less often: the slower a SuperLink answers the ServerApp's smallest call, the
fewer looks of all clients together it has.
"""

import math
import time
from collections import deque
from collections.abc import Callable

import numpy as np

from aoi_fl.protocol.log import logger

_REMEMBERED = 16  # rounds
_TURN = 3.0  # seconds of a wait before other work has a turn
_ENOUGH = 3  # rounds before clients receive a duration
_USUAL = 8  # rounds before a warning that they take longer than set
_LONGER = 1.1  # times the setting; from here on a warning
_SHARE = 0.25  # quantile of the remembered rounds that clients receive
_LOOKS, _MOST_LOOKS = 15.0, 200.0  # looks per second of all clients together: least and most
_LOOK_SHARE = 0.8  # looks of all clients in the time of one small call
_FEW = 0.5  # seconds between two looks that need no interval


class RoundTimer:
    """Measures and keeps the seconds from the start of a round to the start of the next.

    Parameters
    ----------
    seconds : least seconds from one round's start to the next; 0: no pause
    clock, sleep : of seconds
    """

    def __init__(
        self,
        seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._least, self._clock, self._sleep = float(seconds), clock, sleep
        self._last: float | None = None
        self._lengths: deque[float] = deque(maxlen=_REMEMBERED)
        self._typical = 0.0  # the quantile of the lengths, which every message uses
        self._warned = False

    def begin(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Wait until a round may begin, and note its start; a long wait calls ``meanwhile`` at times."""
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
    def elapsed(self) -> float | None:
        """Seconds since the last round's start; None before the first."""
        return None if self._last is None else self._clock() - self._last

    @property
    def remaining(self) -> float:
        """Seconds until the next round may start."""
        return 0.0 if self._last is None else max(0.0, self._last + self._least - self._clock())

    @property
    def seconds(self) -> float | None:
        """Shortest duration of a round, measured or set; None while neither is known."""
        if len(self._lengths) < _ENOUGH:
            return self._least or None
        return max(self._least, self._typical)

    def _check(self) -> None:
        """Warn once if most rounds take longer than the setting."""
        if self._warned or not self._least or len(self._lengths) < _USUAL:
            return
        usual, most = np.quantile(self._lengths, (0.5, 0.9)).tolist()
        if usual > _LONGER * self._least:
            self._warned = True
            logger.warning(
                "Rounds take %.3g s, longer than round-seconds=%g: sleeping clients wake up too early, and "
                "look for messages until their round begins. With many clients, set round-seconds=%d.",
                usual,
                self._least,
                math.ceil(most),
            )


def between_looks(clients: int, latency: float | None = None) -> float | None:
    """Return the poll interval for so many clients, in seconds; None if they are few.

    ``latency`` is the seconds of a small call to the SuperLink; None: unknown.
    """
    looks = _LOOKS if not latency else min(_MOST_LOOKS, max(_LOOKS, _LOOK_SHARE / latency))
    seconds = clients / looks
    return seconds if seconds > _FEW else None
