"""Whom a round leaves in peace, for whom it waits and how long, by the kinds of messages that clients leave unanswered.

A client that is connected and does not answer costs one deadline for each kind of message, and no more. After that it
is tried in growing pauses, and given as much time again as the others take, so that it at most doubles a round now and
then. Seconds are by the clock of the exchange, simulated ones where time is simulated.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.protocol import ParticipationReply
from aoi_fl.strategies.backoff import Backoff
from aoi_fl.strategies.clock import Clock
from aoi_fl.strategies.exchange import Exchange
from aoi_fl.strategies.records import State
from aoi_fl.strategies.validation import Refused, read_record

QUESTION, TRAINING, EVALUATION = "question", "training", "evaluation"
_KEYS = {QUESTION: "silence", TRAINING: "silence-training", EVALUATION: "silence-evaluation"}  # in a run's memory
_AGAIN = 1.5  # times what its last answer took, that an unsteady client is given


class RetryPolicy:
    """The clients' silences, one for each kind of message.

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
