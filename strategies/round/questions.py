"""What a policy may ask clients before it selects them: whether they take part, what they bid, what loss they have."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from aoi_fl import protocol
from aoi_fl.protocol import Bid, ParticipationReply, ParticipationRequest
from aoi_fl.protocol.clock import clock_of
from aoi_fl.protocol.measures import measured
from aoi_fl.protocol.records import Participation
from aoi_fl.strategies.round.dispatch import Dispatch
from aoi_fl.strategies.round.exchange import ANSWERS_KEPT, Exchange
from aoi_fl.strategies.round.retry import QUESTION
from aoi_fl.strategies.round.run import Run
from aoi_fl.strategies.validation import (
    Refused,
    check_metrics,
    check_name,
    declining_rule,
    is_bounded,
    metrics_of,
    read_record,
)

A = TypeVar("A", ParticipationReply, Bid)


class Questions:
    """Sends the requests of a policy, and names the clients without a usable reply.

    Parameters
    ----------
    run : the run
    dispatch : sends the messages of an evaluation
    """

    def __init__(self, run: Run, dispatch: Dispatch) -> None:
        self._run, self._dispatch, self._roster = run, dispatch, run.roster

    def ask(
        self, kind: str, requests: Mapping[int, ParticipationRequest], arrays: ArrayRecord, grid: Grid
    ) -> Iterator[tuple[int, ParticipationReply | Bid | float]]:
        """Ask clients, as :meth:`aoi_fl.strategies.policy.RoundView.query` describes.

        Parameters
        ----------
        kind, requests : the messages' type, and the request to each client
        arrays : the round's model
        grid : where to send the messages
        """
        recorder, inbox = self._run.round.recorder, self._run.inbox
        early = {}
        if kind == protocol.PARTICIPATE:
            held = ((client, request, *inbox[client]) for client, request in requests.items() if client in inbox)
            early = {
                client: answer
                for client, request, earlier, answer in held
                if (earlier.round, earlier.wire) == (request.round, request.wire)
            }
        here = self._roster.here(recorder.round)
        to_ask = {client: request for client, request in requests.items() if client not in early and here[client]}
        recorder.record.asked += len(early)
        if kind == protocol.EVALUATE:
            yield from self._losses(to_ask, arrays, grid)
            return
        if kind == protocol.BID:
            yield from self._answers(kind, to_ask, Bid, grid)
            return
        for client, answer in chain(early.items(), self._answers(kind, to_ask, ParticipationReply, grid)):
            # A willing client stays awake: it waits for the model.
            noted = replace(answer, sleeps=None) if answer.takes_part else answer
            self._roster.note_decision(client, noted, recorder.round, self._run.round_duration)
            if not answer.takes_part:
                recorder.decline(client, answer)
            yield client, answer

    def _answers(
        self, kind: str, requests: Mapping[int, ParticipationRequest], expected: type[A], grid: Grid
    ) -> Iterator[tuple[int, A]]:
        """Ask clients, and yield their answers, records of the expected type, as they arrive."""
        recorder, roster = self._run.round.recorder, self._roster
        contents: dict[ParticipationRequest, RecordDict] = {}  # most clients are asked the same
        messages = {}
        for client, ask in requests.items():
            if ask not in contents:
                contents[ask] = RecordDict({protocol.AOI: ConfigRecord(ask.write())})
            messages[client] = Message(contents[ask], roster.node(client), kind, group_id=str(recorder.round))
        recorder.record.asked += len(messages)
        recorder.exchanged(len(messages))
        settled = roster.patience.worth(
            QUESTION, messages, clock_of(grid), others=roster.others_answer, strangers=roster.strangers(messages)
        )
        timeout = self._run.options.ask_timeout
        exchange = Exchange(grid, messages, timeout, sequential=False, keep=ANSWERS_KEPT, settled=settled)
        for reply in exchange:
            sender = exchange.client_of(reply)
            roster.patience.answered(QUESTION, sender, exchange.elapsed)
            try:
                answer = read_record(reply, expected)
                check_name(answer.name, roster.own_name(sender))
            except Refused as reason:
                self._drop(sender, _outcome(reply), str(reason))
                continue
            yield sender, answer
        late = sorted(exchange.missing)
        roster.patience.ended(QUESTION, late, recorder.round, exchange)
        for client in late:
            self._drop(client, "late", "no answer by the deadline")

    def _losses(
        self, requests: Mapping[int, ParticipationRequest], arrays: ArrayRecord, grid: Grid
    ) -> Iterator[tuple[int, float]]:
        """Have clients evaluate the round's model, and yield the losses that they report."""
        options, recorder = self._run.options, self._run.round.recorder
        nodes = {self._roster.node(client): request for client, request in requests.items()}
        drafts = self._run.aggregation.drafts(
            protocol.EVALUATE, recorder.round, arrays, ConfigRecord(), list(nodes), grid
        )
        self._dispatch.begin(protocol.EVALUATE)
        messages = self._dispatch.write(drafts, nodes)
        losses: dict[int, float] = {}

        def take(client: int, reply: Message) -> bool:
            try:
                check_metrics(reply, options.weighted_by_key)
                metrics = metrics_of(reply.content, options.weighted_by_key)
                loss = None if metrics is None else measured(metrics, "loss")
                if loss is None or not is_bounded(loss):
                    raise Refused("its evaluation has no loss" if loss is None else f"its loss is {loss}")
            except Refused as reason:
                self._drop(client, _outcome(reply), str(reason))
                return False
            losses[client] = loss
            return True

        timeout = options.ask_timeout if options.evaluate_timeout is None else options.evaluate_timeout
        for client in self._dispatch.take(self._dispatch.send(grid, messages, timeout, sequential=False), take):
            self._drop(client, "late", "no evaluation by the deadline")
        recorder.record.asked += len(nodes)
        yield from losses.items()

    def _drop(self, client: int, outcome: str, reason: str) -> None:
        self._run.round.recorder.drop(Participation(client, self._roster.name(client), outcome, reason=reason))


def _outcome(reply: Message) -> str:
    if declining_rule(reply) is not None:
        return "declined"
    return "failed" if reply.has_error() else "refused"
