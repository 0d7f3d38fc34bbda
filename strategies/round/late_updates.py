"""Who is still at work on an earlier round's model, and what becomes of its update when it comes.

Of the updates that miss their round, those that come at most ``late_rounds`` rounds late are added to those in time, as
changes of the model that they were made from, with the weights of :func:`aoi_fl.science.refl.late_weights` (Abdelmoniem
et al. 2023, Section 4.2). Until then their clients are left in peace: neither asked nor sent another model.

Where time is simulated, an update is made when its round ends and kept until it comes, so that a run that breaks off
goes on with it, and with those of whom nothing comes, as they left while they were at work. Elsewhere it is fetched
when it is there, and what was under way when a run broke off is lost.
Memory: a model for each update that is kept, and one for each round of which updates may still come.
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

_LOOK = 0.5  # seconds between two looks at whether an update has come
_TABLE = "late"  # in a run's memory: a row for each update that is kept


class LateUpdates:
    """Updates that arrive after their round.

    Parameters
    ----------
    rounds : how many rounds late an update may come; 0: nobody works on
    roster : the clients; those that work on are ``busy``
    """

    def __init__(self, rounds: int, roster: Roster) -> None:
        self._rounds, self._roster = rounds, roster
        self._works: dict[int, Work] = {}
        roster.busy = self._works.keys()  # whoever that is at the time
        self._open: list[tuple[Exchange, Collector]] = []  # of rounds of which an update may still come

    def keep(
        self, recorder: Recorder, clock: Clock, exchange: Exchange | None, collector: Collector, silent: Iterable[int]
    ) -> Collection[int]:
        """Let those who have not answered in a round work on, and return who does.

        Where somebody else has sent the messages, that is nobody. Who has left for ever looks no different.
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
        """Wait until an update comes, at most so long: for rounds in which everybody is still at work."""
        until = clock.now() + seconds
        while self._works and clock.now() < until:
            self._fetch(recorder, clock)
            first = min((work.comes for work in self._works.values()), default=until)
            if first <= clock.now():
                return
            clock.wait((), 0, _LOOK, min(until, first))

    def come(self, recorder: Recorder, clock: Clock) -> list[Work]:
        """Return the works of earlier rounds whose updates have come by now, in client order, and forget them.

        Those that are too late for any later round are given up, and named in the round's record.
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
        """Give up whoever is still at work when the last round is over, and name it in the round's record."""
        for work in self._sorted():
            self._drop(recorder, clock, work, "late", "the run ended before its update arrived")
        self._open.clear()

    def state_dict(self) -> dict[str, NDArray[np.generic]]:
        """Return the works whose end is known, as a table, and the updates among them by client and name."""
        kept = [work for work in self._sorted() if work.update is not None or isfinite(work.stops)]
        found: dict[str, NDArray[np.generic]] = {}
        if kept:
            found[_TABLE] = np.array([_row(work) for work in kept], dtype=np.float64)
        for work in kept:
            changes = {} if work.update is None else work.update.arrays
            found |= {f"{_TABLE}-{work.client}/{name}": change for name, change in changes.items()}
        return found

    def load_state_dict(self, memory: State) -> None:
        """Take back what :meth:`state_dict` returned."""
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
        """Read the replies of earlier rounds that are there by now."""
        for exchange, collector in self._open:
            self._read(recorder, clock, exchange, collector, exchange.ready())

    def _read(
        self, recorder: Recorder, clock: Clock, exchange: Exchange, collector: Collector, replies: Iterable[Message]
    ) -> set[int]:
        """Keep the updates in replies to an earlier round's messages, drop what is none, and return whose they are."""
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
    answer, told = work.update.answer, work.update.loss
    loss = nan if told is None else told
    age = nan if answer is None else answer.age
    reserved = None if answer is None else answer.next_round
    next_round = nan if reserved is None else reserved
    return *known, work.update.examples, loss, age, next_round, work.stops
