"""What a policy may ask clients before it selects them: whether they take part, what they bid, what loss they have."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict

from aoi_fl import protocol
from aoi_fl.protocol import Bid, ParticipationReply, ParticipationRequest
from aoi_fl.protocol.measures import measured
from aoi_fl.strategies.aggregation.base import Draft
from aoi_fl.strategies.round.dispatch import Dispatch
from aoi_fl.strategies.round.retry import EVALUATION, QUESTION
from aoi_fl.strategies.round.run import StrategyRun
from aoi_fl.strategies.validation import (
    Refused,
    check_metrics,
    check_name,
    declining_rule,
    is_bounded,
    metrics_of,
    read_record,
)

_RECORDS: dict[str, type[ParticipationReply | Bid]] = {protocol.PARTICIPATE: ParticipationReply, protocol.BID: Bid}


class Questions:
    """Sends the requests of a policy, and names the clients without a usable reply.

    Parameters
    ----------
    run : the run
    dispatch : sends the messages
    """

    def __init__(self, run: StrategyRun, dispatch: Dispatch) -> None:
        self._run, self._dispatch, self._roster = run, dispatch, run.roster

    def ask(
        self, kind: str, requests: Mapping[int, ParticipationRequest], arrays: ArrayRecord
    ) -> Iterator[tuple[int, Any]]:
        """Ask clients, as :meth:`aoi_fl.strategies.policy.RoundView.query` describes.

        Parameters
        ----------
        kind, requests : the messages' type, and the request to each client
        arrays : the round's model
        """
        run, roster, round_, inbox = self._run, self._roster, self._run.round, self._run.inbox
        answers: dict[int, Any] = {}
        if kind == protocol.PARTICIPATE:
            held = ((client, request, *inbox[client]) for client, request in requests.items() if client in inbox)
            answers = {
                client: answer
                for client, request, earlier, answer in held
                if (earlier.round, earlier.wire) == (request.round, request.wire)
            }
        here = roster.here()
        asked = {client: request for client, request in requests.items() if client not in answers and here[client]}
        round_.record.asked += len(answers) + len(asked)
        terms = {roster.node(client): request for client, request in asked.items()}
        if kind == protocol.EVALUATE:
            step, what, options = EVALUATION, "evaluation", run.options
            timeout = options.ask_timeout if options.evaluate_timeout is None else options.evaluate_timeout
            drafts = run.aggregation.drafts(kind, round_.number, arrays, ConfigRecord(), list(terms), run.grid)
        else:
            step, what, timeout = QUESTION, "answer", run.options.ask_timeout
            drafts = dict.fromkeys(terms, Draft(RecordDict(), kind))

        def take(client: int, reply: Message) -> bool:
            try:
                answers[client] = self._read(kind, client, reply)
            except Refused as reason:
                outcome = "failed" if reply.has_error() else "refused"
                run.drop(client, outcome if declining_rule(reply) is None else "declined", str(reason))
            return True

        self._dispatch.send(step, self._dispatch.write(drafts, terms), timeout)
        for client in self._dispatch.take(take):
            run.drop(client, "late", f"no {what} by the deadline")
        for client, answer in answers.items():
            if kind == protocol.PARTICIPATE:
                # A willing client stays awake: it waits for the model.
                noted = replace(answer, sleeps=None) if answer.takes_part else answer
                roster.note_decision(client, noted, run.round_duration)
                if not answer.takes_part:
                    round_.decline(client, answer)
            yield client, answer

    def _read(self, kind: str, client: int, reply: Message) -> ParticipationReply | Bid | float:
        """Return a client's answer, or the loss that it reports; raise Refused if there is none."""
        if kind in _RECORDS:
            answer = read_record(reply, _RECORDS[kind])
            check_name(answer.name, self._roster.own_name(client))
            return answer
        key = self._run.options.weighted_by_key
        check_metrics(reply, key)
        metrics = metrics_of(reply.content, key)
        loss = None if metrics is None else measured(metrics, "loss")
        if loss is None or not is_bounded(loss):
            raise Refused("its evaluation has no loss" if loss is None else f"its loss is {loss}")
        return loss
