"""Who does not answer: tried again with growing pauses, and waited for only once it has been heard.

When somebody is tried again follows from the rounds in which it was silent: so a run that was interrupted tries the
same clients in the same rounds. Rounds may be long, and whoever was tried in a bad moment is not to miss a dozen of
them: where time is the machine's, a pause ends after a minute, four rounds given. That an answer came too late says
that its sender is alive: it is tried at once, and waited for.
"""

import math
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

_LONGEST_PAUSE = 64  # rounds
_ENOUGH = 4, 60.0  # rounds and seconds, after both of which a pause is over


class Silence:
    """Those that left a message unanswered, by a number of theirs, and when each is to be tried again.

    After the first unanswered message that is the next round, then every second, fourth, … round.

    Attributes
    ----------
    now : machine's seconds at the start of the round; NaN, where time is simulated, leaves rounds alone to count
    """

    def __init__(self) -> None:
        self._times: dict[int, int] = {}
        self._until: dict[int, int] = {}
        self._heard: set[int] = set()
        self._tried: dict[int, float] = {}  # seconds, the last time; of those of before a break unknown
        self.now = math.nan

    def __iter__(self) -> Iterator[int]:
        """Yield those that have not answered the last message that they were sent."""
        return iter(self._times)

    def mute(self) -> set[int]:
        """Return those that are not waited for."""
        return self._times.keys() - self._heard

    def note(self, who: int, round_: int) -> None:
        """Note that somebody has not answered in a round; of one that was to rest, it is as before."""
        self._heard.discard(who)
        if not self._rests(who, round_):
            self._tried[who] = self.now
            times = self._times[who] = self._times.get(who, 0) + 1
            self._until[who] = round_ + _pause(times)

    def hear(self, who: int) -> None:
        """Note that somebody has answered too late: it is tried at once and waited for; late again, it rests longer."""
        if who in self._times:
            self._until[who] = 0
            self._heard.add(who)

    def excuse(self) -> None:
        """Note that no answer sent before now can be heard: everybody is waited for when it is tried again."""
        self._heard.update(self._times)

    def forget(self, who: Iterable[int]) -> None:
        """Note that these have answered, or are gone."""
        for one in who:
            self._times.pop(one, None)
            self._until.pop(one, None)
            self._tried.pop(one, None)
            self._heard.discard(one)

    def resting(self, round_: int) -> set[int]:
        """Return those that are not tried in a round."""
        return {who for who in self._until if self._rests(who, round_)}

    def _rests(self, who: int, round_: int) -> bool:
        until = self._until.get(who, 0)
        if round_ >= until:
            return False
        rounds, seconds = round_ - (until - _pause(self._times[who])), self.now - self._tried.get(who, math.nan)
        return not (rounds >= _ENOUGH[0] and seconds >= _ENOUGH[1])

    def memory(self) -> NDArray[np.int64]:
        """Return (s, 4) all that is known: who, how often, until when it rests, and whether it was heard meanwhile."""
        rows = [(who, times, self._until[who], who in self._heard) for who, times in self._times.items()]
        return np.array(rows, dtype=np.int64).reshape(-1, 4)

    def recall(self, memory: NDArray[np.int64]) -> None:
        """Take back what :meth:`memory` returned."""
        self._times = {who: times for who, times, _, _ in memory.tolist()}
        self._until = {who: until for who, _, until, _ in memory.tolist()}
        self._heard = {who for who, _, _, heard in memory.tolist() if heard}


def _pause(times: int) -> int:
    """Return the rounds from one try to the next, after so many in vain."""
    return min(1 << times - 1, _LONGEST_PAUSE)
