"""Retry and timeout policy for unresponsive clients, by kind of message.

A connected client that does not answer costs one deadline for each kind of message. After that the server retries it
after growing pauses and waits at most twice the time of the other clients. A selector does not choose a client whose
update could not be used, for the same pauses. A count is kept by the client's name: success halves it. Neither a new
connection nor a late answer clears it. Seconds follow the exchange's clock, which may be simulated.
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
_FORGIVEN = 2.0  # unanswered messages; a late answer ends the pause of a client with no more
_LEAST = 2.0**-60  # unanswered messages; a smaller count is forgotten, so sixty answers forgive one
_ENOUGH = 4, 60.0  # rounds and seconds; a pause ends after both


class Backoff:
    """Clients that left a message unanswered, and the round of their next try.

    The server tries such a client in the next round, then after 2, 4, … rounds.

    Attributes
    ----------
    now : machine's seconds at the start of the round; NaN in simulated time, where pauses count rounds only
    """

    def __init__(self) -> None:
        self._times: dict[int, float] = {}
        self._until: dict[int, int] = {}
        self._late: set[int] = set()
        self._unsteady: dict[int, float] = {}  # seconds (or NaN) of clients that have answered since
        self._tried: dict[int, float] = {}  # seconds of the last try; unknown after a break
        self.now = math.nan

    def __iter__(self) -> Iterator[int]:
        """Yield the clients that have not answered their last message."""
        return iter(self._times.keys() - self._unsteady.keys())

    def counted(self) -> set[int]:
        """Return the clients with a count of unanswered messages, even if they have answered since."""
        return set(self._times)

    def mute(self) -> set[int]:
        """Return the clients for which no round waits."""
        return self._times.keys() - self._late - self._unsteady.keys()

    def unsteady(self) -> dict[int, float]:
        """Return the clients that have answered only their last message, and the seconds until then (NaN)."""
        return {client: took for client, took in self._unsteady.items() if client not in self._late}

    def note(self, client: int, round_: int) -> None:
        """Note an unanswered message; it changes nothing for a client that rests."""
        self._late.discard(client)
        self._unsteady.pop(client, None)
        if not self._rests(client, round_):
            self._tried[client] = self.now
            times = self._times[client] = self._times.get(client, 0) + 1
            self._until[client] = round_ + _pause(times)

    def hear(self, client: int) -> None:
        """Note an answer that a round did not wait for, but that came by the deadline: the next try waits for it."""
        if client in self._times:
            self._late.add(client)
            if self._times[client] <= _FORGIVEN:  # else the pause stays
                self._until[client] = 0

    def answer(self, client: int, took: float | None = None) -> None:
        """Note an answer in time, and its seconds if known."""
        times = self._times.get(client, 0.0) / 2
        if times < _LEAST:
            self.forget([client])
        else:
            self._times[client], self._until[client] = times, 0
            self._late.discard(client)
            self._unsteady[client] = math.nan if took is None else took

    def excuse(self) -> None:
        """Note that earlier answers are lost: the server waits for every client at its next try."""
        self._late.update(self._times)

    def retry(self, client: int) -> None:
        """Try a client in the next round; the round waits for it if it was silent once, and has not answered since.

        An honest client may have left in the middle of its work, which looks the same as silence. A hostile client gets
        a second deadline in this way, and no third one until it is forgiven.
        """
        if client in self._times:
            self._until[client] = 0
            if self._times[client] == 1 and client not in self._unsteady:
                self._late.add(client)

    def forget(self, clients: Iterable[int]) -> None:
        """Forget clients."""
        for one in clients:
            self._unsteady.pop(one, None)
            self._times.pop(one, None)
            self._until.pop(one, None)
            self._tried.pop(one, None)
            self._late.discard(one)

    def resting(self, round_: int) -> set[int]:
        """Return the clients that a round does not try."""
        return {client for client in self._until if self._rests(client, round_)}

    def _rests(self, client: int, round_: int) -> bool:
        until = self._until.get(client, 0)
        if round_ >= until:
            return False
        rounds, seconds = round_ - (until - _pause(self._times[client])), self.now - self._tried.get(client, math.nan)
        return not (rounds >= _ENOUGH[0] and seconds >= _ENOUGH[1])

    def state_dict(self, *, seconds: bool = False) -> NDArray[np.float64]:
        """Return the state as (s, 6) numbers.

        A row has the client, its count, the end of its pause, whether a late answer arrived, whether it has answered
        since, and the seconds until that answer (NaN unless ``seconds`` are valid in another process).
        """
        rows = [
            (
                client,
                times,
                self._until[client],
                client in self._late,
                client in self._unsteady,
                self._unsteady.get(client, math.nan) if seconds else math.nan,
            )
            for client, times in self._times.items()
        ]
        return np.array(rows, dtype=np.float64).reshape(-1, 6)

    def load_state_dict(self, memory: NDArray[Any]) -> None:
        """Restore a state; rows of an earlier version have four values."""
        rows = memory.tolist()
        self._times = {int(client): times for client, times, *_ in rows}
        self._until = {int(client): int(until) for client, _, until, *_ in rows}
        self._late = {int(client) for client, _, _, heard, *_ in rows if heard}
        self._unsteady = {int(row[0]): row[5] for row in rows if len(row) > 4 and row[4]}


def _pause(times: float) -> int:
    """Return the rounds between two tries after this many unanswered messages."""
    return min(1 << max(math.ceil(times - 0.3), 1) - 1, _LONGEST_PAUSE)  # some answers make up for a silence


QUESTION, TRAINING, EVALUATION = "question", "training", "evaluation"
_KEYS = {QUESTION: "silence", TRAINING: "silence-training", EVALUATION: "silence-evaluation"}  # names in the state
_AGAIN = 1.5  # time limit of an unsteady client, as a multiple of its last answer's time


class RetryPolicy:
    """Retry policy for unresponsive clients, with one backoff for each kind of message.

    A pause concerns questions only. A client that has decided to take part receives the model in any case. For a policy
    a resting client is absent.
    """

    def __init__(self) -> None:
        self._silences = {kind: Backoff() for kind in _KEYS}
        self._failures = Backoff()  # clients whose last update could not be used
        self._took = dict.fromkeys(_KEYS, np.nan)  # seconds until the last answer of the last exchange
        self._unanswered: list[tuple[str, Exchange]] = []  # exchanges that some client may still answer

    def resting(self, round_: int, *kinds: str) -> list[int]:
        """Return the clients that a round does not try, because of their silence to one of these kinds of messages."""
        return sorted({client for kind in kinds for client in self._silences[kind].resting(round_)})

    def failing(self, round_: int) -> set[int]:
        """Return the clients that a selector does not choose in a round, as their last updates could not be used."""
        return self._failures.resting(round_)

    def silent(self, *kinds: str) -> set[int]:
        """Return the clients that have left the last message of one of these kinds unanswered."""
        return {client for kind in kinds for client in self._silences[kind]}

    def doubtful(self, *kinds: str) -> set[int]:
        """Return the clients that left messages of these kinds, or of any, unanswered."""
        return {client for kind in kinds or _KEYS for client in self._silences[kind].counted()}

    def worth(
        self,
        kind: str,
        asked: Collection[int],
        clock: Clock,
        *,
        others: bool,
        strangers: Collection[int] = (),
    ) -> Callable[[set[int]], float | None]:
        """Return a function from the missing clients to the seconds that a round waits for them.

        Parameters
        ----------
        kind : kind of the messages
        asked : their recipients
        clock : clock of the seconds
        others : whether some clients answer, even if this message is not for them
        strangers : recipients that may be a silent client under a new name; they count as silent

        Notes
        -----
        The function returns None, the whole deadline, while a client is missing that was not silent the last time, or
        if no client answers. Silent clients get as much time again as the others took. If all recipients are silent
        ones, a model gets the time of the last answers, and a question none. A client that was silent earlier and has
        answered the last time also gets one and a half times the seconds of that answer.
        """
        begun, mute, unsteady = clock.now(), self._silences[kind].mute(), self._silences[kind].unsteady()
        known, usual = mute.union(strangers, unsteady), self._took[kind]
        alone, patient = mute.union(strangers).issuperset(asked), kind != QUESTION or not mute.issuperset(strangers)

        def seconds(missing: set[int]) -> float | None:
            if not others or not missing <= known:
                return None
            if alone:
                return 0.0 if not patient else None if np.isnan(usual) else usual
            if missing.issuperset(asked):  # no client has answered yet
                return None
            passed = clock.now() - begun
            own = [_AGAIN * unsteady[client] - passed for client in missing & unsteady.keys()]
            return max([passed, *(left for left in own if left > passed)])

        return seconds

    def listen(self, now: float) -> dict[int, ParticipationReply]:
        """Note the time at the start of a round, and late answers; return the decisions in these by client."""
        for backoff in (*self._silences.values(), self._failures):
            backoff.now = now
        decided: dict[int, ParticipationReply] = {}
        for kind, exchange in self._unanswered:
            overdue = exchange.overdue
            for reply in exchange.ready():
                client = exchange.client_of(reply)
                if client is not None and not reply.has_error():
                    if not overdue:
                        self._silences[kind].hear(client)
                    with suppress(Refused):  # a bid, for instance
                        decided[client] = read_record(reply, ParticipationReply)
                del reply  # it may have an update
        self._unanswered = [
            (kind, exchange)
            for kind, exchange in self._unanswered
            if exchange.open and exchange.missing & self._silences[kind].mute()
        ]
        return decided

    def answered(self, kind: str, client: int, took: float | None = None) -> None:
        """Note a client's answer in time, and its seconds if known."""
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
        """Note the clients without an answer, and the seconds of the others.

        Without an exchange the step of a subclass has the replies. A client that would have answered by the deadline
        gets the full time at its next try. In simulated time the clock knows this. Otherwise its answer shows it, if a
        round begins before the deadline and no other part fetches that answer (``elsewhere``).
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

    def trained(self, client: int, round_: int, *, usable: bool) -> None:
        """Note whether a client's reply to a model had a usable update."""
        if usable:
            self._failures.answer(client)
        else:
            self._failures.note(client, round_)

    def returned(self, client: int) -> None:
        """Note that a client has connected again: it is tried at once, and rounds wait for it once or twice."""
        for silence in self._silences.values():
            silence.retry(client)

    def state_dict(self, *, simulated: bool) -> dict[str, NDArray[Any]]:
        """Return the state as arrays by name; it has seconds only if time is ``simulated``."""
        found: dict[str, NDArray[Any]] = {
            _KEYS[kind]: silence.state_dict(seconds=simulated) for kind, silence in self._silences.items()
        }
        if self._failures.counted():
            found["failures"] = self._failures.state_dict()
        if simulated:
            found["patience"] = np.array(list(self._took.values()))
        return found

    def load_state_dict(self, memory: State, *, simulated: bool) -> None:
        """Restore a state.

        Answers of before the break are lost unless they were ``simulated``, so the server waits for every client once.
        """
        for kind, silence in self._silences.items():
            if _KEYS[kind] in memory:
                silence.load_state_dict(memory[_KEYS[kind]])
            if not simulated:
                silence.excuse()
        self._failures.load_state_dict(memory.get("failures", np.empty((0, 6))))
        if "patience" in memory:
            self._took = dict(zip(_KEYS, memory["patience"].tolist(), strict=True))
