"""Lines on stderr while an experiment is played: how far it is, and when it will be done."""

import sys
import time
from collections.abc import Callable

from aoi_fl.experiments.harness.base import Unit

_EVERY = 20.0  # seconds between two lines about rounds


class Progress:
    """How many units are done, how many rounds of the one at hand, and when the rest will be.

    Parameters
    ----------
    name : of the experiment
    done, missing : units that were complete before, and units to be played
    expected : seconds that one unit brings the end nearer, until a share of one has been played; None: not known
    every : seconds between two lines about rounds
    tell : takes the lines
    """

    def __init__(
        self,
        name: str,
        done: int,
        missing: int,
        expected: float | None,
        every: float = _EVERY,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self._name, self._done, self._total = name, done, done + missing
        self._expected, self._every, self._tell = expected, every, tell or say
        self._started, self._said = time.monotonic(), float("-inf")
        self._finished = 0.0  # in units, without what resumed ones had behind them
        self._begun: dict[str, tuple[float, float]] = {}  # unit: shares of it that were done, first and last seen
        if missing:
            left = "" if expected is None else f", about {duration(expected * missing)}"
            self._tell(f"{name}: {missing} units to play{left}")

    def round(self, unit: Unit, done: int, total: int, what: str = "round") -> None:
        """Note how many rounds of a unit are done, or simulated seconds, and say so now and then."""
        share = done / total
        first, _ = self._begun.get(_what(unit), (share, share))
        self._begun[_what(unit)] = (first, share)
        now = time.monotonic()
        if now - self._said >= self._every:
            self._said = now
            self._line(f"{_what(unit)}, {what} {done}/{total}")

    def step(self, unit: Unit) -> None:
        """Count a finished unit, and say so."""
        first, _ = self._begun.pop(_what(unit), (0.0, 0.0))
        self._finished += 1 - first
        self._done += 1
        self._said = time.monotonic()
        self._line(_what(unit))

    def _line(self, what: str) -> None:
        left = self.left()
        ending = "" if left is None else f", {duration(left)} left"
        self._tell(f"{self._name}: {self._done}/{self._total} ({what}){ending}")

    def left(self) -> float | None:
        """Return the seconds left: at the pace so far, or as expected while there is none; None if neither is known."""
        played = self._finished + sum(last - first for first, last in self._begun.values())
        missing = self._total - self._done - sum(last for _, last in self._begun.values())
        each = (time.monotonic() - self._started) / played if played else self._expected
        return None if each is None else each * missing


def duration(seconds: float) -> str:
    """Write seconds for people: ``12 s``, ``3 min``, ``2.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _what(unit: Unit) -> str:
    return ", ".join(f"{key} {value}" for key, value in unit.items())


def say(text: str) -> None:
    """Print a line on stderr at once."""
    print(text, file=sys.stderr, flush=True)
