"""What a policy may ask clients before it selects them: whether they take part, what they bid, what loss they have."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message

from aoi_fl import protocol
from aoi_fl.protocol import Bid, ParticipationReply, ParticipationRequest
from aoi_fl.protocol.measures import measured
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


def ask(
    run: StrategyRun, dispatch: Dispatch, kind: str, requests: Mapping[int, ParticipationRequest], arrays: ArrayRecord
) -> Iterator[tuple[int, Any]]:
    """Ask clients, as :meth:`aoi_fl.strategies.policy.RoundView.query` describes; name those without a usable reply.

    Parameters
    ----------
    run, dispatch : the run, and what sends the messages
    kind, requests : the messages' type, and the request to each client
    arrays : the round's model
    """
    round_, options, here = run.round, run.options, run.roster.here()
    answers: dict[int, Any] = {}
    for client, request in requests.items():
        if kind == protocol.PARTICIPATE and client in run.inbox:
            earlier, answer = run.inbox[client]
            if (earlier.round, earlier.wire) == (request.round, request.wire):
                answers[client] = answer
    asked = {client: request for client, request in requests.items() if client not in answers and here[client]}
    round_.record.asked += len(answers) + len(asked)
    step, what, timeout = QUESTION, "answer", options.ask_timeout
    if kind == protocol.EVALUATE:
        step, what = EVALUATION, "evaluation"
        timeout = timeout if options.evaluate_timeout is None else options.evaluate_timeout

    def take(client: int, reply: Message) -> bool:
        try:
            answers[client] = _read(run, kind, client, reply)
        except Refused as reason:
            outcome = "failed" if reply.has_error() else "refused"
            run.drop(client, outcome if declining_rule(reply) is None else "declined", str(reason))
        return True

    dispatch.send(step, dispatch.write(kind, asked, round_.number, arrays, ConfigRecord()), timeout)
    for client in dispatch.take(take):
        run.drop(client, "late", f"no {what} by the deadline")
    for client, answer in answers.items():
        if kind == protocol.PARTICIPATE:
            # A willing client stays awake: it waits for the model.
            run.note_decision(client, replace(answer, sleeps=None) if answer.takes_part else answer)
            if not answer.takes_part:
                round_.decline(client, answer)
        yield client, answer


def _read(run: StrategyRun, kind: str, client: int, reply: Message) -> ParticipationReply | Bid | float:
    """Return a client's answer, or the loss that it reports; raise Refused if there is none."""
    if kind in _RECORDS:
        answer = read_record(reply, _RECORDS[kind])
        check_name(answer.name, run.roster.own_name(client))
        return answer
    key = run.options.weighted_by_key
    check_metrics(reply, key)
    metrics = metrics_of(reply.content, key)
    loss = None if metrics is None else measured(metrics, "loss")
    if loss is None or not is_bounded(loss):
        raise Refused("its evaluation has no loss" if loss is None else f"its loss is {loss}")
    return loss
