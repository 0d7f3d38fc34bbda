"""Whom a round leaves in peace, for whom it waits and how long, by the kinds of messages that clients leave unanswered.

A client that is connected and does not answer costs one deadline for each kind of message, and no more. After that it
is tried in growing pauses, and given as much time again as the others take, so that it at most doubles a round now and
then. Seconds are by the clock of the exchange, simulated ones where time is simulated.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.protocol import ParticipationReply
from aoi_fl.strategies.clock import Clock
from aoi_fl.strategies.records import State
from aoi_fl.strategies.round.exchange import Exchange
from aoi_fl.strategies.validation import Refused, read_record

_LONGEST_PAUSE = 64  # rounds
_LEAST = 0.5  # unanswered messages, as they are counted, below which they are forgotten
_ENOUGH = 4, 60.0  # rounds and seconds, after both of which a pause is over


class Backoff:
    """Clients that left a message unanswered, and the round in which each is tried again.

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
        """Take back what :meth:`memory` returned; an earlier version's rows end with the fourth value."""
        rows = memory.tolist()
        self._times = {int(who): times for who, times, *_ in rows}
        self._until = {int(who): int(until) for who, _, until, *_ in rows}
        self._heard = {int(who) for who, _, _, heard, *_ in rows if heard}
        self._unsteady = {int(row[0]): row[5] for row in rows if len(row) > 4 and row[4]}


def _pause(times: float) -> int:
    """Return the rounds from one try to the next, after so many in vain."""
    return min(1 << max(math.ceil(times), 1) - 1, _LONGEST_PAUSE)


QUESTION, TRAINING, EVALUATION = "question", "training", "evaluation"
_KEYS = {QUESTION: "silence", TRAINING: "silence-training", EVALUATION: "silence-evaluation"}  # in a run's memory
_AGAIN = 1.5  # times what its last answer took, that an unsteady client is given


class RetryPolicy:
    """Retry policy for unresponsive clients, with one backoff for each kind of message.

    A pause is in asking only. Nobody's decision is passed over: whoever has said that it takes part is sent the model,
    and who rests has not been asked. To a policy it is as one that is absent.
    """

    def __init__(self) -> None:
        self._silences = {kind: Backoff() for kind in _KEYS}
        self._took = dict.fromkeys(_KEYS, np.nan)  # seconds until the last answer, in the last exchange with any
        self._unanswered: list[tuple[str, Exchange]] = []  # exchanges that some client may still answer

    def resting(self, round_: int, *kinds: str) -> list[int]:
        """Return the clients that are not tried in a round, for their silence to one of these kinds of messages."""
        return sorted({client for kind in kinds for client in self._silences[kind].resting(round_)})

    def silent(self, *kinds: str) -> set[int]:
        """Return the clients that have left the last message of one of these kinds unanswered."""
        return {client for kind in kinds for client in self._silences[kind]}

    def doubtful(self, kind: str) -> set[int]:
        """Return the clients that have left messages of a kind unanswered of late: those that answer come first."""
        return self._silences[kind].counted()

    def worth(
        self, kind: str, asked: Collection[int], clock: Clock, *, others: bool
    ) -> Callable[[set[int]], float | None]:
        """Return what says of those who have not answered yet how many seconds they are worth waiting for.

        Parameters
        ----------
        kind : of the messages that are about to be sent
        asked : to whom
        clock : of seconds
        others : whether there are clients that answer, asked or not

        Returns
        -------
        None, for the whole deadline, while somebody is missing that was not silent the last time, or where nobody
        answers any more. The silent are given as much time again as the rest took; where nobody else was sent the
        model, as those who answered took the last time, if that is known; where nobody else was asked, none at all:
        the others make the round. One that was silent some time before, and has answered the last time, is given as
        much time again as the rest took too, and half as much again as its own answer took.
        """
        begun, mute, unsteady = clock.now(), self._silences[kind].mute(), self._silences[kind].unsteady()
        known, alone, usual = mute | unsteady.keys(), mute.issuperset(asked), self._took[kind]

        def seconds(missing: set[int]) -> float | None:
            if not others or not missing <= known:
                return None
            if alone:
                return 0.0 if kind == QUESTION else None if np.isnan(usual) else usual
            if missing.issuperset(asked):  # nobody has answered yet to go by
                return None
            passed = clock.now() - begun
            own = [_AGAIN * unsteady[client] - passed for client in missing & unsteady.keys()]
            return max([passed, *(left for left in own if left > passed)])

        return seconds

    def listen(self, now: float) -> dict[int, ParticipationReply]:
        """Note, as a round begins, the time as for :class:`Backoff`, and who has answered after all, if too late.

        Returned is what these have decided about the round that they were asked in, and about later ones.
        """
        for silence in self._silences.values():
            silence.now = now
        decided: dict[int, ParticipationReply] = {}
        for kind, exchange in self._unanswered:
            for reply in exchange.ready():
                client = exchange.client_of(reply)
                if client is not None and not reply.has_error():
                    self._silences[kind].hear(client)
                    with suppress(Refused):  # it may be a bid
                        decided[client] = read_record(reply, ParticipationReply)
                del reply  # it may hold an update
        self._unanswered = [
            (kind, exchange)
            for kind, exchange in self._unanswered
            if exchange.open and exchange.missing & self._silences[kind].mute()
        ]
        return decided

    def answered(self, kind: str, client: int, took: float | None = None) -> None:
        """Note that a client has answered in time, and after how many seconds, if that is known."""
        self._silences[kind].answer(client, took)

    def ended(
        self,
        kind: str,
        missing: Collection[int],
        round_: int,
        exchange: Exchange | None = None,
        *,
        elsewhere: bool = False,
    ) -> None:
        """Note who has not answered, and how long the others took; without an exchange somebody else has sent it.

        Whoever would have answered by the deadline, but was not waited for, is waited for the next time: in simulated
        time the clock knows, and else its answer is heard when it comes, unless that is fetched ``elsewhere``.
        """
        silence = self._silences[kind]
        for client in missing:
            silence.note(client, round_)
        if exchange is None:
            return
        if exchange.took is not None:
            self._took[kind] = exchange.took
        for client in exchange.coming():
            silence.hear(client)
        if exchange.open and not elsewhere:
            self._unanswered.append((kind, exchange))

    def forget(self, client: int) -> None:
        """Note that a client has started anew."""
        for silence in self._silences.values():
            silence.forget([client])

    def state_dict(self, *, simulated: bool) -> dict[str, NDArray[Any]]:
        """Return what the next round needs to know, as arrays by name; seconds only where they are ``simulated``."""
        found: dict[str, NDArray[Any]] = {
            _KEYS[kind]: silence.state_dict(seconds=simulated) for kind, silence in self._silences.items()
        }
        if simulated:
            found["patience"] = np.array(list(self._took.values()))
        return found

    def load_state_dict(self, memory: State, *, simulated: bool) -> None:
        """Take back what :meth:`state_dict` returned.

        Answers that were under way when the run broke off are never heard, unless they were ``simulated``: so everybody
        is waited for once.
        """
        for kind, silence in self._silences.items():
            if _KEYS[kind] in memory:
                silence.load_state_dict(memory[_KEYS[kind]])
            if not simulated:
                silence.excuse()
        if "patience" in memory:
            self._took = dict(zip(_KEYS, memory["patience"].tolist(), strict=True))
