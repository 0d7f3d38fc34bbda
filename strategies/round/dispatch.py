"""The messages of one step of a round, and their replies by client, for our steps and those of a subclass."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict

from aoi_fl import protocol
from aoi_fl.protocol import ParticipationRequest
from aoi_fl.protocol.clock import FIRST
from aoi_fl.protocol.records import SURPLUS
from aoi_fl.science import draws
from aoi_fl.strategies.aggregation.base import Draft
from aoi_fl.strategies.round.collection import Collector
from aoi_fl.strategies.round.exchange import ANSWERS_KEPT, Exchange
from aoi_fl.strategies.round.open_exchange import OpenExchange
from aoi_fl.strategies.round.retry import QUESTION, TRAINING
from aoi_fl.strategies.round.run import StrategyRun


class Dispatch:
    """The messages of one step of a round, and their replies by client.

    Parameters
    ----------
    run : the run

    Attributes
    ----------
    sent : the messages by client
    """

    def __init__(self, run: StrategyRun) -> None:
        self._run, self._roster = run, run.roster
        self.sent: dict[int, Message] = {}
        self._kind = TRAINING
        self._excused = set[int]()  # sleeping clients, whose silence does not count
        self._exchange: Exchange  # of these messages, once they are sent

    @property
    def why_missing(self) -> str:
        """Why clients sent no reply, once the replies of the others are taken."""
        if not (self._exchange.satisfied or self._exchange.cut_short):
            return "no reply by the deadline"
        return SURPLUS if self._exchange.satisfied else "no reply, like the last time, so it was not waited for as long"

    def write(
        self,
        kind: str,
        requests: Mapping[int, ParticipationRequest],
        number: int,
        arrays: ArrayRecord,
        config: ConfigRecord,
    ) -> list[Message]:
        """Return the messages to clients: what the aggregation drafts, and our own record; equal contents share it.

        Parameters
        ----------
        kind : the messages' type; a question has our record alone
        requests : our record for each client; a client without a draft gets no message
        number, arrays, config : the round, its model and configuration
        """
        run = self._run
        terms = {self._roster.node(client): request for client, request in requests.items()}
        drafts: Mapping[int, Draft] = dict.fromkeys(terms, Draft(RecordDict(), kind))
        if kind in (protocol.TRAIN, protocol.EVALUATE):
            drafts = run.aggregation.drafts(kind, number, arrays, config, list(terms), run.grid)
        shared: dict[tuple[int, ParticipationRequest], RecordDict] = {}
        messages = []
        for node in (node for node in terms if node in drafts):
            content, own = drafts[node].content, terms[node]
            if (key := (id(content), own)) not in shared:
                # A strategy may go on changing its configuration while a message still waits for its client.
                kept = {k: v.copy() if isinstance(v, ConfigRecord) else v for k, v in content.items()}
                shared[key] = RecordDict({**kept, protocol.AOI: ConfigRecord(own.write())})
            messages.append(Message(shared[key], node, drafts[node].kind, group_id=str(own.round)))
        return messages

    def send(self, kind: str, messages: Iterable[Message], timeout: float) -> None:
        """Send messages, ours or those of a subclass.

        Parameters
        ----------
        kind : QUESTION, TRAINING or EVALUATION; replies to a training are read one at a time, and may be late, or
            enough before all have arrived
        messages, timeout : the messages, and the seconds until the deadline
        """
        run, roster, options = self._run, self._roster, self._run.options
        trains, keep, enough = kind == TRAINING, ANSWERS_KEPT if kind == QUESTION else None, None
        self._kind, self.sent, self._excused = kind, self.by_client(messages), set()
        run.round.record.messages += 2 * len(self.sent)  # one down and one up for each
        if trains:
            self._excused.update(np.flatnonzero(roster.asleep()).tolist())
            enough = options.enough
            if options.late_rounds:
                keep = options.late_rounds * timeout  # a round takes no longer, except for its question
        if trains and options.buffer:
            self._exchange = exchange = run.at_work.send(self.sent, timeout)
            self.sent = exchange.messages | self.sent
            return
        if enough is not None:  # the order of clients that answer at the same time
            lots = draws.uniforms(options.seed, run.round.number, FIRST, len(roster))
            self.sent = {client: self.sent[client] for client in sorted(self.sent, key=lots.__getitem__)}
        self._exchange = Exchange(
            run.grid,
            self.sent,
            timeout,
            sequential=trains,
            ordered=trains and options.deterministic,
            enough=enough,
            settled=roster.patience.worth(
                kind,
                self.sent,
                run.clock,
                others=roster.others_answer,
                strangers=roster.strangers(self.sent),
            ),
            last=() if kind == QUESTION else roster.patience.doubtful(kind),
            keep=keep,
            packing=roster.packing,
        )

    def take(self, take: Callable[[int, Message], bool], collector: Collector | None = None) -> list[int]:
        """Pass on each reply of a step with its client's number; return the clients without a reply.

        ``take`` returns whether a reply counts under over-selection. The ``collector`` of a training may let clients
        without a reply work on.
        """
        exchange, silent = self._exchange, set(self.sent)
        for reply in exchange:
            client = exchange.client_of(reply)
            silent.discard(client)
            self._roster.patience.by_kind[self._kind].answer(client, exchange.elapsed)
            if take(client, reply):
                exchange.counted()
            del reply  # else it stays while the next one is decoded
        working = set() if collector is None else set(self._run.at_work.keep(exchange, collector, silent))
        silent -= working
        # A surplus client might still have answered by the deadline.
        mute = set() if self.why_missing == SURPLUS else silent - self._excused
        timed = None if isinstance(exchange, OpenExchange) else exchange
        self._roster.patience.ended(self._kind, mute, timed, elsewhere=bool(working))
        return sorted(silent)

    def by_client(self, messages: Iterable[Message]) -> dict[int, Message]:
        """Return messages by the clients that they go to."""
        known = ((self._roster.number(message.metadata.dst_node_id), message) for message in messages)
        return {client: message for client, message in known if client is not None}
