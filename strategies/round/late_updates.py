"""Late updates: clients that still work on an earlier round's model.

An update at most ``late_rounds`` rounds late is added to the updates in time, as a change of the model that it was made
from, with the weights of :func:`aoi_fl.strategies.aggregation.mean.late_weights` (Abdelmoniem et al. 2023, Section
4.2). Until then its client receives neither questions nor another model.

In simulated time an update is made at the end of its round and kept until it arrives. A resumed run continues with it,
and with clients that left during their work. Otherwise an update is fetched when it arrives, and a break loses the
updates under way. Memory: one model for each kept update, and one for each round with updates to come.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from math import isfinite, isnan, nan

import numpy as np
from flwr.app import Message
from numpy.typing import NDArray

from aoi_fl.protocol import ParticipationReply
from aoi_fl.strategies.clock import Clock
from aoi_fl.strategies.records import Participation, State
from aoi_fl.strategies.round.collection import Collector, Work
from aoi_fl.strategies.round.exchange import Exchange
from aoi_fl.strategies.round.recorder import Recorder
from aoi_fl.strategies.round.retry import TRAINING
from aoi_fl.strategies.round.roster import Roster
from aoi_fl.strategies.validation import Refused, Update

_LOOK = 0.5  # seconds between two looks for an update
_TABLE = "late"  # in the state: a row for each kept update


class LateUpdates:
    """Updates that arrive after their round.

    Parameters
    ----------
    rounds : rounds that an update may be late; 0: none
    roster : the clients; those that work on are ``busy``
    """

    def __init__(self, rounds: int, roster: Roster) -> None:
        self._rounds, self._roster = rounds, roster
        self._works: dict[int, Work] = {}
        roster.busy = self._works.keys()  # a live view
        self._open: list[tuple[Exchange, Collector]] = []  # of rounds with updates to come

    def keep(
        self, recorder: Recorder, clock: Clock, exchange: Exchange | None, collector: Collector, silent: Iterable[int]
    ) -> Collection[int]:
        """Let clients without an answer work on, and return them; none if a subclass's step returned the replies.

        A client that has left for ever looks the same.
        """
        if not self._rounds or exchange is None:
            return ()
        works = {client: collector.work(client) for client in exchange.pending.intersection(silent)}
        self._works |= works
        if exchange.open:
            self._open.append((exchange, collector))
            return works
        self._read(recorder, clock, exchange, collector, exchange.foretold())
        for client, stops in exchange.stops().items():
            if client in works:
                self._works[client] = replace(works[client], stops=stops)
        return works

    def wait(self, recorder: Recorder, clock: Clock, seconds: float) -> None:
        """Wait until an update arrives, at most this long, for rounds in which all clients still work."""
        until = clock.now() + seconds
        while self._works and clock.now() < until:
            self._fetch(recorder, clock)
            first = min((work.comes for work in self._works.values()), default=until)
            if first <= clock.now():
                return
            clock.wait((), 0, _LOOK, min(until, first))

    def come(self, recorder: Recorder, clock: Clock) -> list[Work]:
        """Return and forget the works of earlier rounds with an arrived update, in client order.

        A work that is too late for any later round ends; the round's record names its client.
        """
        self._fetch(recorder, clock)
        here = [work for work in self._sorted() if work.round < recorder.round and work.comes <= clock.now()]
        come = [self._works.pop(work.client) for work in here]
        for work in come:
            self._roster.patience.answered(TRAINING, work.client)
        for work in self._sorted():
            if recorder.round - work.round >= self._rounds:
                self._drop(recorder, clock, work, "late", f"no update within {self._rounds} rounds more")
                self._roster.patience.ended(TRAINING, {work.client}, recorder.round, None)
        waited = {work.round for work in self._works.values()}
        self._open = [(exchange, collector) for exchange, collector in self._open if collector.round in waited]
        return come

    def end(self, recorder: Recorder, clock: Clock) -> None:
        """End all works after the last round; the round's record names their clients."""
        for work in self._sorted():
            self._drop(recorder, clock, work, "late", "the run ended before its update arrived")
        self._open.clear()

    def state_dict(self) -> dict[str, NDArray[np.generic]]:
        """Return the works with a known end, as a table, and their updates by client and name."""
        kept = [work for work in self._sorted() if work.update is not None or isfinite(work.stops)]
        found: dict[str, NDArray[np.generic]] = {}
        if kept:
            found[_TABLE] = np.array([_row(work) for work in kept], dtype=np.float64)
        for work in kept:
            changes = {} if work.update is None else work.update.arrays
            found |= {f"{_TABLE}-{work.client}/{name}": change for name, change in changes.items()}
        return found

    def load_state_dict(self, memory: State) -> None:
        """Restore a state."""
        rows = memory[_TABLE].tolist() if _TABLE in memory else []
        for number, round_, weight, sent, comes, examples, loss, age, reserved, *more in rows:
            if isnan(examples):
                self._works[int(number)] = Work(int(number), int(round_), weight, sent, stops=more[0])
                continue
            client, prefix = int(number), f"{_TABLE}-{number:.0f}/"
            next_round = None if isnan(reserved) else int(reserved)
            known = None if isnan(age) else ParticipationReply(self._roster.name(client), True, int(age), next_round)
            changes = {name.removeprefix(prefix): array for name, array in memory.items() if name.startswith(prefix)}
            update = Update(changes, examples if examples % 1 else int(examples), None if isnan(loss) else loss, known)
            self._works[client] = Work(client, int(round_), weight, sent, comes, update=update)

    def _fetch(self, recorder: Recorder, clock: Clock) -> None:
        """Read the arrived replies of earlier rounds."""
        for exchange, collector in self._open:
            self._read(recorder, clock, exchange, collector, exchange.ready())

    def _read(
        self, recorder: Recorder, clock: Clock, exchange: Exchange, collector: Collector, replies: Iterable[Message]
    ) -> set[int]:
        """Keep the updates in replies to an earlier round's messages, drop the others, and return their clients."""
        answered = set()
        for reply in replies:
            client = exchange.client_of(reply)
            work = None if client is None else self._works.get(client)
            if work is None or work.round != collector.round:
                continue
            try:
                self._works[work.client] = replace(
                    work, comes=clock.came(reply), update=collector.change(work.client, reply)
                )
            except Refused as reason:
                outcome = "failed" if reply.has_error() else "refused"
                self._drop(recorder, clock, work, outcome, str(reason))
            answered.add(work.client)
            del reply  # the next one is made when this one is gone
        return answered

    def _drop(self, recorder: Recorder, clock: Clock, work: Work, outcome: str, reason: str) -> None:
        del self._works[work.client]
        worked = None if clock.simulated is None else min(clock.now(), work.comes, work.stops) - work.sent
        waited = clock.now() - work.sent if outcome == "late" else None
        name = self._roster.name(work.client)
        part = Participation(work.client, name, outcome, seconds=waited, device_seconds=worked, reason=reason)
        recorder.drop(part)

    def _sorted(self) -> list[Work]:
        return [work for _, work in sorted(self._works.items())]


def _row(work: Work) -> tuple[float, ...]:
    known = work.client, work.round, work.weight, work.sent, work.comes
    if work.update is None:
        return *known, nan, nan, nan, nan, work.stops
    answer, loss = work.update.answer, nan if work.update.loss is None else work.update.loss
    age = nan if answer is None else answer.age
    reserved = None if answer is None else answer.next_round
    next_round = nan if reserved is None else reserved
    return *known, work.update.examples, loss, age, next_round, work.stops
