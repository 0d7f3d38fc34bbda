"""Who does not answer: tried again with growing pauses, and waited for only once it has been heard.

When somebody is tried again follows from the rounds in which it was silent: so a run that was interrupted tries the
same clients in the same rounds. Rounds may be long, and whoever was tried in a bad moment is not to miss a dozen of
them: where time is the machine's, a pause ends after a minute, four rounds given. That an answer came too late says
that its sender is alive: it is tried at once, and waited for.

An answer in time halves the count of unanswered messages, and below one half they are forgotten. So a client that
answers every other time is not as good as new after each answer. It is tried at once, but not waited for until a
deadline.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LONGEST_PAUSE = 64  # rounds
_LEAST = 0.5  # unanswered messages, as they are counted, below which they are forgotten
_ENOUGH = 4, 60.0  # rounds and seconds, after both of which a pause is over


class Backoff:
    """Those that left a message unanswered, by a number of theirs, and when each is to be tried again.

    After the first unanswered message that is the next round, then every second, fourth, … round.

    Attributes
    ----------
    now : machine's seconds at the start of the round; NaN, where time is simulated, leaves rounds alone to count
    """

    def __init__(self) -> None:
        self._times: dict[int, float] = {}
        self._until: dict[int, int] = {}
        self._heard: set[int] = set()
        self._unsteady: dict[int, float] = {}  # those that have answered since, and the seconds that it took (NaN)
        self._tried: dict[int, float] = {}  # seconds, the last time; of those of before a break unknown
        self.now = math.nan

    def __iter__(self) -> Iterator[int]:
        """Yield those that have not answered the last message that they were sent."""
        return iter(self._times.keys() - self._unsteady.keys())

    def counted(self) -> set[int]:
        """Return those of which unanswered messages are counted, whether or not they have answered since."""
        return set(self._times)

    def mute(self) -> set[int]:
        """Return those that are not waited for."""
        return self._times.keys() - self._heard - self._unsteady.keys()

    def unsteady(self) -> dict[int, float]:
        """Return those that have answered the last message only, and the seconds that this took (NaN)."""
        return {who: took for who, took in self._unsteady.items() if who not in self._heard}

    def note(self, who: int, round_: int) -> None:
        """Note that somebody has not answered in a round; of one that was to rest, it is as before."""
        self._heard.discard(who)
        self._unsteady.pop(who, None)
        if not self._rests(who, round_):
            self._tried[who] = self.now
            times = self._times[who] = self._times.get(who, 0) + 1
            self._until[who] = round_ + _pause(times)

    def hear(self, who: int) -> None:
        """Note that somebody has answered too late: it is tried at once and waited for; late again, it rests longer."""
        if who in self._times:
            self._until[who] = 0
            self._heard.add(who)

    def answer(self, who: int, took: float | None = None) -> None:
        """Note that somebody has answered in time, and after how many seconds, if that is known."""
        times = self._times.get(who, 0.0) / 2
        if times < _LEAST:
            self.forget([who])
        else:
            self._times[who], self._until[who] = times, 0
            self._heard.discard(who)
            self._unsteady[who] = math.nan if took is None else took

    def excuse(self) -> None:
        """Note that no answer sent before now can be heard: everybody is waited for when it is tried again."""
        self._heard.update(self._times)

    def forget(self, who: Iterable[int]) -> None:
        """Note that these are as good as new, or gone."""
        for one in who:
            self._unsteady.pop(one, None)
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

    def state_dict(self, *, seconds: bool = False) -> NDArray[np.float64]:
        """Return (s, 6) all that is known; what answers took only where ``seconds`` mean something in another process.

        A row holds who, how often, until when it rests, whether it was heard meanwhile, whether it has answered since,
        and the seconds that this took (NaN).
        """
        rows = [
            (who, times, self._until[who], who in self._heard, who in self._unsteady,
             self._unsteady.get(who, math.nan) if seconds else math.nan)
            for who, times in self._times.items()
        ]  # fmt: skip
        return np.array(rows, dtype=np.float64).reshape(-1, 6)

    def load_state_dict(self, memory: NDArray[Any]) -> None:
        """Take back what :meth:`state_dict` returned; an earlier version's rows end with the fourth value."""
        rows = memory.tolist()
        self._times = {int(who): times for who, times, *_ in rows}
        self._until = {int(who): int(until) for who, _, until, *_ in rows}
        self._heard = {int(who) for who, _, _, heard, *_ in rows if heard}
        self._unsteady = {int(row[0]): row[5] for row in rows if len(row) > 4 and row[4]}


def _pause(times: float) -> int:
    """Return the rounds from one try to the next, after so many in vain."""
    return min(1 << max(math.ceil(times), 1) - 1, _LONGEST_PAUSE)
