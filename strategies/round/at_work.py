"""Clients that still work on an earlier round's model.

**Without a barrier** (a buffer of B updates) a round is one model. It is over after B updates of anybody, and all other
clients work on. An update that is s models old is rebased:

    current model + (1 + s)^−p · (update − the model that it was made from)

A client frees its place when its update arrives, when it leaves or at its deadline, and when its update would be more
than ``late_rounds`` models old. A resumed run sends its messages again; in simulated time their clients continue.

**With a barrier** an update may be late. An update at most ``late_rounds`` rounds late is added to the updates in time,
as a change of the model that it was made from, with the weights of
:func:`aoi_fl.strategies.aggregation.mean.late_weights` (Abdelmoniem et al. 2023, Section 4.2). Until then its client
receives neither questions nor another model.

In simulated time an update is made at the end of its round and kept until it arrives. A resumed run continues with it,
and with clients that left during their work. Otherwise an update is fetched when it arrives, and a break loses the
updates under way. Memory: one model for each kept update, and one for each round with updates to come.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from math import inf, isfinite, isnan

import numpy as np
from flwr.app import Array, ArrayRecord, Message

from aoi_fl.protocol import ParticipationReply
from aoi_fl.protocol.records import State
from aoi_fl.science.types import AnyArray
from aoi_fl.strategies.policy import Plan
from aoi_fl.strategies.round.collection import Collector, Work
from aoi_fl.strategies.round.current import Round
from aoi_fl.strategies.round.exchange import GRACE, Exchange
from aoi_fl.strategies.round.open_exchange import OpenExchange
from aoi_fl.strategies.round.retry import TRAINING
from aoi_fl.strategies.round.shared import Shared
from aoi_fl.strategies.validation import Refused, Update

_LOOK = 0.5  # seconds between two looks for an update
_TABLE = "late"  # in the state: a row for each kept update
_MESSAGES = "at-work"  # a row for each message without a reply, in a run with a buffer


class AtWork:
    """The clients at work when a round is over, and their updates.

    Parameters
    ----------
    run : the run; clients that work on are ``busy`` in its roster
    """

    def __init__(self, run: Shared) -> None:
        self._run, self._roster = run, run.roster
        self._rounds, self._buffered = run.options.late_rounds, run.options.buffer > 0
        self._works: dict[int, Work] = {}
        run.roster.busy = self
        self._left = set[int]()  # clients that have left in this round: it has a row of them
        self._exchange: OpenExchange | None = None  # of all rounds, with a buffer
        # The models of messages that a resumed run sends again, by round, and whether their clients were forced.
        self._interrupted: dict[int, tuple[ArrayRecord, bool]] = {}
        self._again: dict[int, Message] = {}

    def __len__(self) -> int:
        return len(self._works)

    def __iter__(self) -> Iterator[int]:
        """Yield the clients that get neither a model nor a question in this round."""
        return iter(self._works.keys() | self._left)

    @property
    def origins(self) -> dict[int, Collector]:
        """The collectors of the rounds from which clients work on, with a buffer."""
        works = self._works.values() if self._buffered else ()
        return {work.client: work.origin for work in works if work.origin is not None}

    def release(self) -> None:
        """Begin a round: free the places of clients that have left without an update; they rest for a round."""
        self._left.clear()
        if not self._buffered:
            return
        sent = {} if self._exchange is None else self._exchange.messages
        here = {client for client in self._works if self._roster.available[client]}
        # Under a new node id a client has started anew.
        here -= {one for one in here & sent.keys() if self._roster.node(one) != sent[one].metadata.dst_node_id}
        gone = [work for work in self._sorted() if work.client not in here and work.comes > self._run.clock.now()]
        arrived = set() if self._exchange is None else self._exchange.arrived({work.client for work in gone})
        for work in gone:
            if work.client not in arrived:
                self._left.add(work.client)
                self._end(work, "it left before its update arrived")

    def send(self, messages: dict[int, Message], timeout: float) -> OpenExchange:
        """Send the models of a round with a buffer, and return the exchange of all clients at work.

        Where the server selects, the round is over after B updates. Where clients decide, it is over when B of the
        places are free, so that as many clients begin as end.
        """
        run, clock, packing = self._run, self._run.clock, self._roster.packing
        exchange = self._exchange = self._exchange or OpenExchange(run.grid)
        keep = min(timeout, GRACE) if clock.simulated is None else self._rounds * timeout
        again, self._again = self._again, {}
        for client, message in again.items():
            with clock.as_of(self._works[client].sent):
                exchange.add({client: message}, timeout, keep, packing)
        exchange.add(messages, timeout, keep, packing)
        run.round.record.at_work = count = len(exchange.pending)
        least = inf if run.policy.traits.decides else min(run.options.buffer, count)
        exchange.await_updates(least, run.most_at_work - run.options.buffer)
        return exchange

    def interrupted(self) -> Iterator[Round]:
        """Yield and forget the rounds before a break, with the clients that were at work and are here."""
        interrupted, self._interrupted = self._interrupted, {}
        for number, (model, forced) in sorted(interrupted.items()):
            works, former = [work for work in self._sorted() if work.round == number], Round(number)
            clients, weights = [work.client for work in works], [work.weight for work in works]
            former.plan = Plan(np.array(clients, np.int64), np.array(weights), forced=forced)
            former.model, former.sent = model, min((work.sent for work in works), default=0.0)
            yield former

    def send_again(self, collector: Collector, messages: dict[int, Message]) -> None:
        """Send messages of an interrupted round again, with the next models."""
        for client in messages:
            self._works[client] = replace(self._works[client], origin=collector, sent=collector.sent)
        self._again |= messages

    def keep(self, exchange: Exchange, collector: Collector, silent: Iterable[int]) -> Collection[int]:
        """Let clients without an answer work on, and return them.

        A client that has left for ever looks the same.
        """
        if not self._rounds:
            return ()
        if isinstance(exchange, OpenExchange):
            earlier, self._works, clock = self._works, {}, self._run.clock
            for client, message in exchange.messages.items():
                i = message.metadata.message_id
                self._works[client] = earlier.get(client) or replace(
                    collector.work(client), comes=clock.arrives(i), stops=clock.stops(i)
                )
            return exchange.pending
        works = {client: collector.work(client) for client in exchange.pending.intersection(silent)}
        self._works |= works
        if exchange.open:
            collector.exchange = exchange
            return works
        self._read(exchange, collector, exchange.foretold())
        for client, stops in exchange.stops().items():
            if client in works:
                self._works[client] = replace(works[client], stops=stops, origin=None)
        return works

    def wait(self, seconds: float) -> None:
        """Wait until an update arrives, at most this long, for rounds in which all clients still work."""
        clock = self._run.clock
        until = clock.now() + seconds
        while self._works and clock.now() < until:
            self._fetch()
            first = min((work.comes for work in self._works.values()), default=until)
            if first <= clock.now():
                return
            clock.wait((), 0, _LOOK, min(until, first))

    def come(self) -> list[Work]:
        """Return and forget the works of earlier rounds with an arrived update, in client order.

        A work that is too late for any later round ends; the round's record names its client.
        """
        self._fetch()
        round_, arrived = self._run.round.number, () if self._buffered else self._sorted()
        here = [work for work in arrived if work.round < round_ and work.comes <= self._run.clock.now()]
        come = [self._works.pop(work.client) for work in here]
        for work in come:
            self._roster.patience.by_kind[TRAINING].answer(work.client)
        for work in self._sorted():
            if round_ - work.round >= self._rounds:
                self._end(work, f"no update within {self._rounds} rounds more")
        return come

    def end(self) -> None:
        """End all works after the last round; the round's record names their clients."""
        for work in self._sorted():
            self._drop(work, "late", "the run ended before its update arrived")

    def state_dict(self) -> State:
        """Return the works with a known end, as a table, and their updates by client and name."""
        if self._buffered:
            return self._messages()
        kept = [work for work in self._sorted() if work.update is not None or isfinite(work.stops)]
        found: dict[str, AnyArray] = {}
        if kept:
            found[_TABLE] = np.array([_row(work) for work in kept], dtype=np.float64)
        for work in kept:
            changes = {} if work.update is None else work.update.arrays
            found |= {f"{_TABLE}-{work.client}/{name}": change for name, change in changes.items()}
        return found

    def load_state_dict(self, memory: State) -> None:
        """Restore a state."""
        self._load_messages(memory)
        rows = memory[_TABLE].tolist() if _TABLE in memory else []
        for number, round_, weight, sent, comes, examples, loss, age, reserved, *stops in rows:
            client, prefix, update = int(number), f"{_TABLE}-{number:.0f}/", None
            if not isnan(examples):
                next_round = None if isnan(reserved) else int(reserved)
                answer = ParticipationReply(self._roster.name(client), True, int(age), next_round) if age >= 0 else None
                changes = {name.removeprefix(prefix): memory[name] for name in memory if name.startswith(prefix)}
                count = examples if examples % 1 else int(examples)
                update = Update(changes, count, None if isnan(loss) else loss, answer)
            self._works[client] = Work(client, int(round_), weight, sent, comes, (*stops, inf)[0], update)

    def _messages(self) -> State:
        """Return the clients at work as a table, and the models that they were sent by round and name."""
        found: dict[str, AnyArray] = {}
        rows = []
        for client, origin in self.origins.items():
            work = self._works[client]
            rows.append((client, work.round, work.weight, work.sent, work.comes, work.stops, origin.plan.forced))
            found |= {f"{_MESSAGES}-{work.round}/{name}": array.numpy() for name, array in origin.model.items()}
        return found | ({_MESSAGES: np.array(rows, np.float64)} if rows else {})

    def _load_messages(self, memory: State) -> None:
        for number, sent_in, weight, *times, forced in memory.get(_MESSAGES, np.empty((0, 7))).tolist():
            round_, prefix = int(sent_in), f"{_MESSAGES}-{sent_in:.0f}/"
            self._works[int(number)] = Work(int(number), round_, weight, *times)
            if round_ not in self._interrupted:
                model = {name.removeprefix(prefix): Array(memory[name]) for name in memory if name.startswith(prefix)}
                self._interrupted[round_] = ArrayRecord(model), bool(forced)

    def _fetch(self) -> None:
        """Read the arrived replies of earlier rounds."""
        for origin in dict.fromkeys(work.origin for work in self._sorted()):
            if origin is not None and origin.exchange is not None:
                self._read(origin.exchange, origin, origin.exchange.ready())

    def _read(self, exchange: Exchange, collector: Collector, replies: Iterable[Message]) -> None:
        """Keep the updates in replies to an earlier round's messages, and drop the others."""
        for reply in replies:
            work = self._works.get(exchange.client_of(reply))
            if work is None or work.round != collector.round:
                continue
            try:
                update, comes = collector.change(work.client, reply), self._run.clock.came(reply)
                self._works[work.client] = replace(work, comes=comes, update=update, origin=None)
            except Refused as reason:
                outcome = "failed" if reply.has_error() else "refused"
                self._drop(work, outcome, str(reason))
            del reply  # the next one is made when this one is gone

    def _end(self, work: Work, reason: str) -> None:
        """End a work whose update no longer counts."""
        self._drop(work, "late", reason)
        self._roster.patience.by_kind[TRAINING].note(work.client)

    def _drop(self, work: Work, outcome: str, reason: str) -> None:
        del self._works[work.client]
        if self._exchange is not None:
            self._exchange.forget({work.client})
        clock = self._run.clock
        worked = None if clock.simulated is None else min(clock.now(), work.comes, work.stops) - work.sent
        of_this_process = clock.simulated is not None or not self._interrupted
        waited = clock.now() - work.sent if outcome == "late" and of_this_process else None
        self._run.drop(work.client, outcome, reason, seconds=waited, device_seconds=worked)

    def _sorted(self) -> list[Work]:
        return [work for _, work in sorted(self._works.items())]


def _row(work: Work) -> tuple[float | None, ...]:
    update = work.update
    made = [getattr(update, name, None) for name in ("examples", "loss")]
    made += [getattr(update and update.answer, name, None) for name in ("age", "next_round")]
    return work.client, work.round, work.weight, work.sent, work.comes, *made, work.stops
