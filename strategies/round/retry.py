"""Retry and timeout policy for unresponsive clients, by kind of message.

A connected client that does not answer costs one deadline in 64 rounds for each kind of message. In between, the server
retries it after growing pauses. It waits twice the time of the other clients, or one and a half times the seconds of
the client's last answer in time. What it waits in vain in this way never exceeds one and a half times all seconds of
such answers. A selector does not choose a client whose update could not be used, for the same pauses. A count is kept
by the client's name: success halves it. Neither a new connection nor a late answer clears it. Seconds follow the
exchange's clock, which may be simulated.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from aoi_fl.protocol import ParticipationReply
from aoi_fl.protocol.clock import Clock
from aoi_fl.protocol.records import State
from aoi_fl.science.types import AnyArray, Floats
from aoi_fl.strategies.round.exchange import Exchange
from aoi_fl.strategies.validation import Refused, read_record

_LONGEST_PAUSE = 64  # rounds
_FORGIVEN = 2.0  # unanswered messages; a late answer ends the pause of a client with no more
_LEAST = 2.0**-60  # unanswered messages; a smaller count is forgotten, so sixty answers forgive one
_AGAIN = 1.5  # time limit of a retry, as a multiple of the client's last answer's time
_ENOUGH = 4, 60.0  # rounds and seconds; a pause ends after both


@dataclass
class _Silence:
    """What is known of one client.

    Attributes
    ----------
    count : its unanswered messages, less what its answers have forgiven
    until : the round of its next try
    waited : the round of the last wait until the deadline, in vain; NaN: none
    silent : whether it has not answered its last message
    took, left : seconds of its last answer, and seconds left for retries
    tried : seconds of the last try; unknown after a break
    """

    count: float = 0.0
    until: int = 0
    waited: float = math.nan
    silent: bool = False
    took: float = math.nan
    left: float = 0.0
    tried: float = math.nan

    def spared(self, round_: int) -> bool:
        """Tell whether a round does not wait for the client until the deadline, because an earlier one did."""
        return round_ < self.waited + _LONGEST_PAUSE

    @property
    def worth(self) -> float:
        """Seconds that a round waits for the client."""
        return float(np.fmin(_AGAIN * self.took, self.left))


class Backoff:
    """Clients that left a message unanswered, and the round of their next try.

    The server tries such a client in the next round, then after 2, 4, … rounds.

    Attributes
    ----------
    round : number of the current round
    now : machine's seconds at its start; NaN in simulated time, where pauses count rounds only
    """

    def __init__(self) -> None:
        self._clients: defaultdict[int, _Silence] = defaultdict(_Silence)
        self.round = 0
        self.now = math.nan

    @property
    def silent(self) -> set[int]:
        """The clients that have not answered their last message."""
        return {client for client, one in self._clients.items() if one.silent}

    def counted(self) -> set[int]:
        """Return the clients with a count of unanswered messages, even if they have answered since."""
        return {client for client, one in self._clients.items() if one.count}

    def mute(self) -> set[int]:
        """Return the silent clients for which the round does not wait until the deadline."""
        return {client for client, one in self._clients.items() if one.silent and one.spared(self.round)}

    def patience(self) -> dict[int, float]:
        """Return the seconds that a round waits for a client with a count, unless the others take longer."""
        return {
            client: one.worth
            for client, one in self._clients.items()
            if one.count and (not one.silent or one.spared(self.round))
        }

    def note(self, client: int) -> None:
        """Note an unanswered message; it changes nothing for a client that rests."""
        one = self._clients[client]
        one.silent = True
        if self._rests(one):
            return
        one.tried = self.now
        one.count += 1
        one.until = self.round + _pause(one.count)
        if one.spared(self.round):
            one.left -= one.worth
        else:
            one.waited = self.round

    def hear(self, client: int) -> None:
        """Note an answer that a round did not wait for, but that came by the deadline.

        It ends a short pause. A client that was never waited for until the deadline keeps that wait.
        """
        one = self._clients[client]
        if one.count <= _FORGIVEN:
            one.until = 0
        if one.count == 1:
            one.waited = math.nan

    def answer(self, client: int, took: float = math.nan) -> None:
        """Note an answer in time, and its seconds if known."""
        one = self._clients[client]
        if not math.isnan(took):
            one.took, one.left = took, one.left + _AGAIN * took
        one.silent, one.count, one.until = False, one.count / 2, 0
        if one.count < _LEAST:
            one.count, one.waited, one.tried = 0.0, math.nan, math.nan

    def retry(self, client: int) -> None:
        """Try a client in the next round."""
        self._clients[client].until = 0

    def forget(self, client: int) -> None:
        """Forget a client."""
        self._clients.pop(client, None)

    def resting(self) -> set[int]:
        """Return the clients that the round does not try."""
        return {client for client, one in self._clients.items() if self._rests(one)}

    def _rests(self, one: _Silence) -> bool:
        if self.round >= one.until:
            return False
        rounds, seconds = self.round - (one.until - _pause(one.count)), self.now - one.tried
        return not (rounds >= _ENOUGH[0] and seconds >= _ENOUGH[1])

    def state_dict(self, *, seconds: bool = False) -> Floats:
        """Return the state as (s, 7) numbers.

        A row has the client, its count, the end of its pause, the round of the last wait until the deadline, whether it
        is silent, the seconds of its last answer, and those left for retries. Seconds are saved only if they are valid
        in another process (``seconds``).
        """
        rows = [
            (
                client,
                one.count,
                one.until,
                one.waited,
                one.silent,
                *((one.took, one.left) if seconds else (math.nan, 0.0)),
            )
            for client, one in sorted(self._clients.items())
            if one.count or (seconds and not math.isnan(one.took))
        ]
        return np.array(rows, dtype=np.float64).reshape(-1, 7)

    def load_state_dict(self, memory: AnyArray) -> None:
        """Restore a state."""
        for number, count, until, waited, silent, took, left in memory.tolist():
            self._clients[int(number)] = _Silence(count, int(until), waited, bool(silent), took, left)


def _pause(times: float) -> int:
    """Return the rounds between two tries after this many unanswered messages."""
    return min(1 << max(math.ceil(times - 0.3), 1) - 1, _LONGEST_PAUSE)  # some answers make up for a silence


QUESTION, TRAINING, EVALUATION = "question", "training", "evaluation"
FAILURE = "failures"  # no kind of message, but updates that could not be used
_KEYS = {QUESTION: "silence", TRAINING: "silence-training", EVALUATION: "silence-evaluation"}  # names in the state


class RetryPolicy:
    """Retry policy for unresponsive clients, with one backoff for each kind of message.

    A pause concerns questions only. A client that has decided to take part receives the model in any case. For a policy
    a resting client is absent.

    Attributes
    ----------
    by_kind : the backoff of each kind of message, and of updates that could not be used
    """

    def __init__(self) -> None:
        self.by_kind = {kind: Backoff() for kind in (*_KEYS, FAILURE)}
        self._took = dict.fromkeys(_KEYS, np.nan)  # seconds until the last answer of the last exchange
        self._unanswered: list[tuple[str, Exchange]] = []  # exchanges that some client may still answer

    def resting(self, *kinds: str) -> list[int]:
        """Return the clients that the round does not try, because of their last messages of one of these kinds."""
        return sorted({client for kind in kinds for client in self.by_kind[kind].resting()})

    def silent(self, *kinds: str) -> set[int]:
        """Return the clients that have left the last message of one of these kinds unanswered."""
        return {client for kind in kinds for client in self.by_kind[kind].silent}

    def doubtful(self, *kinds: str) -> set[int]:
        """Return the clients that left messages of these kinds, or of any, unanswered."""
        return {client for kind in kinds or _KEYS for client in self.by_kind[kind].counted()}

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
        The function returns None, the whole deadline, while a client is missing that has no count, or if no client
        answers. A client with a count gets as much time again as the others took, and at least the seconds that it has
        earned (:meth:`Backoff.patience`). If all recipients were silent the last time, a model gets the time of the
        last answers, and a question none.
        """
        silence = self.by_kind[kind]
        begun, mute, patience = clock.now(), silence.mute().union(strangers), silence.patience()
        known, usual = mute.union(patience), self._took[kind]
        patient = kind != QUESTION or not silence.mute().issuperset(strangers)

        def seconds(missing: set[int]) -> float | None:
            if not others or not missing <= known:
                return None
            passed = clock.now() - begun
            own = [left for client in missing & patience.keys() if (left := patience[client] - passed) > passed]
            if mute.issuperset(asked):
                return 0.0 if not patient else None if np.isnan(usual) else max([usual, *own])
            if missing.issuperset(asked):  # no client has answered yet
                return None
            return max([passed, *own])

        return seconds

    def listen(self, round_: int, now: float) -> dict[int, ParticipationReply]:
        """Note the start of a round, and late answers; return the decisions in these by client."""
        for backoff in self.by_kind.values():
            backoff.round, backoff.now = round_, now
        decided: dict[int, ParticipationReply] = {}
        for kind, exchange in self._unanswered:
            overdue = exchange.overdue
            for reply in exchange.ready():
                client = exchange.client_of(reply)
                if not reply.has_error():
                    if not overdue:
                        self.by_kind[kind].hear(client)
                    with suppress(Refused):  # a bid, for instance
                        decided[client] = read_record(reply, ParticipationReply)
                del reply  # it may have an update
        self._unanswered = [
            (kind, exchange)
            for kind, exchange in self._unanswered
            if exchange.open and exchange.missing & self.by_kind[kind].mute()
        ]
        return decided

    def ended(
        self, kind: str, missing: Collection[int], exchange: Exchange | None = None, *, elsewhere: bool = False
    ) -> None:
        """Note the clients without an answer, and the seconds of the others.

        A client that would have answered by the deadline is tried again sooner. In simulated time the clock knows
        this. Otherwise its answer shows it, if a round begins before the deadline and no other part fetches that answer
        (``elsewhere``).
        """
        silence = self.by_kind[kind]
        for client in missing:
            silence.note(client)
        if exchange is None:
            return
        if exchange.took is not None:
            self._took[kind] = exchange.took
        for client in exchange.coming():
            silence.hear(client)
        if exchange.open and not elsewhere:
            self._unanswered.append((kind, exchange))

    def returned(self, client: int) -> None:
        """Note that a client has connected again: it is tried in the next round."""
        for kind in _KEYS:
            self.by_kind[kind].retry(client)

    def state_dict(self, *, simulated: bool) -> State:
        """Return the state as arrays by name; it has seconds only if time is ``simulated``."""
        found: dict[str, AnyArray] = {
            key: self.by_kind[kind].state_dict(seconds=simulated) for kind, key in _KEYS.items()
        }
        if self.by_kind[FAILURE].counted():
            found[FAILURE] = self.by_kind[FAILURE].state_dict()
        if simulated:
            found["patience"] = np.array(list(self._took.values()))
        return found

    def load_state_dict(self, memory: State) -> None:
        """Restore a state."""
        for kind, key in _KEYS.items():
            self.by_kind[kind].load_state_dict(memory[key])
        self.by_kind[FAILURE].load_state_dict(memory.get(FAILURE, np.empty((0, 7))))
        if "patience" in memory:
            self._took = dict(zip(_KEYS, memory["patience"].tolist(), strict=True))
