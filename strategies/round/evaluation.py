"""A round's evaluation by clients: the new model goes to some of them, and their metrics come back.

The next round's question can ride on it. A client that evaluates the model of round t, after that round's training, can
decide about round t+1 in the same reply.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord

from aoi_fl import protocol
from aoi_fl.flower.errors import CLIENT_APP_RAISED
from aoi_fl.protocol import ParticipationReply, ParticipationRequest
from aoi_fl.protocol.log import logger
from aoi_fl.science import draws
from aoi_fl.strategies.aggregation.base import NO_METRICS, log_failure, nodes_of
from aoi_fl.strategies.aggregation.metrics import metrics_or_none, whole
from aoi_fl.strategies.round.dispatch import Dispatch
from aoi_fl.strategies.round.retry import EVALUATION, QUESTION, TRAINING
from aoi_fl.strategies.round.run import StrategyRun
from aoi_fl.strategies.validation import Refused, check_metrics, check_name, one_line, read_record, some_of

EvaluateStep: TypeAlias = Callable[..., MetricRecord | None]


class EvaluationStep:
    """Has some of the clients evaluate the model of each round.

    Parameters
    ----------
    run : the run
    """

    def __init__(self, run: StrategyRun) -> None:
        self._run, self._roster, self._dispatch = run, run.roster, Dispatch(run)
        self._ahead: dict[int, ParticipationRequest] | None = None  # of the evaluation at hand, once it is ours
        self._accepted: dict[int, Message] = {}
        self._unused: dict[tuple[str, str], list[str]] = {}  # what is said of clients, before and after their names

    def messages(self, arrays: ArrayRecord, config: ConfigRecord) -> list[Message]:
        """Return the messages of a round's evaluation, for clients drawn at random."""
        run, number = self._run, self._run.round.number
        if run.progress.unevaluable or not run.options.evaluators(int(run.roster.available.sum())):
            return []
        # Answers to it would be lost in a break, and asking again takes time, which is part of the run where simulated.
        rides = run.last != number and run.clock.simulated is None
        coming, plain, clients = run.request(number + 1), run.request(number).untimed(), _drawn(run)
        # A client without a usable update may still be at work on it, and learn its age only then.
        unsettled = {part.client for part in run.round.record.participations if part.outcome != "trained"}
        requests, self._ahead = dict.fromkeys(clients, plain), {}
        for client in clients:
            asks = rides and client not in unsettled
            if asks and (question := run.policy.request_for(coming, client, "evaluate")) is not None:
                self._ahead[client] = question
                requests[client] = replace(question, round=number, ahead=True)
        return self._dispatch.write(protocol.EVALUATE, requests, number, arrays, config)

    def conclude(self, messages: list[Message], timeout: float, step: EvaluateStep | None) -> MetricRecord | None:
        """Accept and drop evaluations, and have metrics made of them, by ``step`` if a subclass overrides ours."""
        run, number = self._run, self._run.round.number
        self._dispatch.send(EVALUATION, messages, timeout)
        if self._ahead is None and not self._dispatch.sent:
            return None
        for client in self._dispatch.take(self._take):
            self._drop(client, self._dispatch.why_missing)
        for (before, after), names in self._unused.items():
            logger.warning("Round %d: %s %s %s", number, before, some_of(names), after)
        self._ahead, accepted = None, [reply for _, reply in sorted(self._accepted.items())]
        metrics = run.aggregation.evaluated(number, accepted) if step is None else self._by(step, accepted)
        run.progress.evaluated |= metrics is not None
        here = np.flatnonzero(run.roster.available).tolist()
        if here and run.unable.issuperset(here) and not run.progress.evaluated:
            logger.warning("No client could evaluate the model: none is asked again (fraction_evaluate=0).")
            run.progress.unevaluable = True
        run.round.add_seconds("evaluate", time.monotonic() - run.round.step_begun)
        if metrics is not None:
            run.evaluate("client", metrics)
            replies = {self._roster.name(client): reply.content for client, reply in self._accepted.items()}
            run.round.evaluate_clients({name: next(iter(c.metric_records.values())) for name, c in replies.items()})
        self._accepted, self._unused = {}, {}
        return metrics

    def _by(self, step: EvaluateStep, replies: Sequence[Message]) -> MetricRecord | None:
        """Return what a step of a subclass makes of the accepted evaluations."""
        number = self._run.round.number
        try:
            usable = whole(replies, self._run.options.weighted_by_key)
            return self._run.call_step("aggregate_evaluate", step, number, usable, made=metrics_or_none)
        except Exception as error:  # over what a client has sent
            log_failure(number, NO_METRICS, nodes_of(replies), error)
            return None

    def _take(self, client: int, reply: Message) -> bool:
        """Accept a client's metrics, and pass on what it says of the next round; or drop its reply, and say so."""
        run = self._run
        run.limit_metrics(client, reply)
        try:
            for metric in check_metrics(reply, run.options.weighted_by_key):
                self._say(client, f"metric {one_line(metric)} of", "is not finite and is left out.")
        except Refused as reason:
            if reply.has_error() and reply.error.code == CLIENT_APP_RAISED:
                run.unable.add(client)  # as one does that evaluates nothing
            self._drop(client, str(reason))
            return False
        question = None if self._ahead is None else self._ahead.get(client)
        if question is not None and protocol.AOI in reply.content:
            try:
                answer = read_record(reply, ParticipationReply)
                check_name(answer.name, self._roster.own_name(client))
                run.inbox[client] = question, answer
            except Refused as reason:
                logger.warning("The server will ask client %s again: %s", client, reason)
        reply.content.pop(protocol.AOI, None)
        self._accepted[client] = reply
        return True

    def _drop(self, client: int, reason: str) -> None:
        """Count and name an evaluation that is not used; what the client did in training stays as it is."""
        self._run.round.record.dropped += 1
        self._say(client, "evaluation of", f"dropped: {reason}")

    def _say(self, client: int, before: str, after: str) -> None:
        self._unused.setdefault((before, after), []).append(self._roster.name(client))


def _drawn(run: StrategyRun) -> list[int]:
    """Draw the clients that evaluate from the connected that have not been silent of late."""
    roster, round_ = run.roster, run.round.number
    here = np.flatnonzero(roster.available_but(roster.patience.resting(QUESTION, TRAINING, EVALUATION)))
    lots = draws.uniforms(run.options.seed, round_, "evaluate", len(roster))[here]
    drawn: list[int] = np.sort(here[np.argsort(lots)[: run.options.evaluators(len(here))]]).tolist()
    return drawn
