"""One round: its plan, the model that it trains, its record, and what the policy learns from it."""

import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, Literal, cast

import numpy as np
from flwr.app import ArrayRecord, MetricRecord

from aoi_fl.protocol import ParticipationReply
from aoi_fl.protocol.log import logger
from aoi_fl.protocol.measures import KINDS, as_share, measured, measured_name, number_of
from aoi_fl.protocol.records import BELOW_QUORUM, SURPLUS, Participation, Phase, RoundRecord
from aoi_fl.science.errors import ConfigError
from aoi_fl.strategies.policy import ClientOutcome, Plan, Policy, Result, RoundOutcome, RoundView
from aoi_fl.strategies.validation import one_line

_OF_PLANS = ("spent", "dropout")  # entries that a plan may set
_EXPECTED = (SURPLUS, BELOW_QUORUM)  # reasons for which a client is not to blame
_COUNTS = ("willing", "declined", "dropped")  # of clients, which the training completes


class Round:
    """The round at hand.

    Parameters
    ----------
    number : from 1; 0 before the first round
    opened : simulated seconds at which it began; None: time is the machine's
    hidden : whether the run records of clients their participation alone

    Attributes
    ----------
    record : its record; entries that need more than an assignment are written here
    plan, planned : the last plan, and whether there is one
    model : what the clients of the plan are sent
    sent : seconds, by the run's clock, at which the model was sent
    step_begun : machine seconds at which the step at hand began
    """

    def __init__(self, number: int, opened: float | None = None, hidden: bool = False) -> None:
        self.record, self.opened, self._hidden = RoundRecord(number, started=time.time()), opened, hidden
        self.plan, self.planned = Plan(np.empty(0, np.int64), np.empty(0)), False
        self.model = ArrayRecord()
        self.sent = self.step_begun = 0.0
        self._begun = time.monotonic()
        self._view: RoundView | None = None  # of the last plan, until the policy has learned from the round
        self._trainings = 0  # outcomes before the training
        self._attempt = 0  # and before its second attempt

    @property
    def number(self) -> int:
        """The round's number."""
        return self.record.round

    @contextmanager
    def timed(self, phase: Phase) -> Iterator[None]:
        """Count the seconds of a block as a phase's."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.add_seconds(phase, time.monotonic() - begun)

    def add_seconds(self, phase: Phase, seconds: float) -> None:
        """Add seconds to a phase."""
        name = f"{phase}_seconds"
        setattr(self.record, name, (getattr(self.record, name) or 0.0) + seconds)

    def waited(self, seconds: float) -> None:
        """Leave out of the roll call, and of the round, seconds in which the server waited for clients."""
        self.add_seconds("hello", -seconds)
        self._begun += seconds

    def plan_by(self, view: RoundView, plan: Plan, policy: str) -> None:
        """Note what a plan says of the round, and the view that it was made from.

        Raises
        ------
        ConfigError
            The plan sets an entry that no plan may set.
        """
        self._view = view
        if plan.undecided:
            self.record.asked = len(plan.clients)
        elif plan.forced:
            self.record.forced = True
        else:
            self.record.willing = plan.willing
        for name in plan.ledger:
            if name not in _OF_PLANS:
                raise ConfigError(f"ledger of {policy}.plan", name, _OF_PLANS, "Leave other entries out.")
        self._note_entries(plan)

    def _note_entries(self, plan: Plan) -> None:
        for name, value in plan.ledger.items():
            setattr(self.record, name, value)

    def begin_collection(self) -> None:
        """Separate the outcomes up to now from those of the training."""
        self._attempt = len(self.record.participations)
        if self._view is None or not self._view.second_attempt:
            self._trainings = self._attempt

    def decline(self, client: int, answer: ParticipationReply, reason: str | None = None) -> None:
        """Count a client that declined; name it if there is a ``reason``, as a rule of its owner is."""
        self.record.declined += 1
        if reason is None and answer.rule is not None:
            reason = f"by its owner's rule: {one_line(answer.rule)}"
        if reason is not None:
            self.record.participations.append(
                Participation(client, answer.name, "declined", age=answer.age, reason=reason)
            )

    def drop(self, part: Participation) -> None:
        """Count, name and log a client without usable work."""
        self.record.dropped += 1
        self.record.participations.append(part)
        level = logging.DEBUG if part.reason in _EXPECTED else logging.WARNING
        client = f"{part.name} (client {part.client})"
        reason = part.alone().reason if self._hidden else part.reason
        logger.log(level, "Round %d: %s %s: %s", self.number, client, part.outcome, reason)

    def train(self, parts: Sequence[Participation]) -> None:
        """Note the clients that trained, and the mean of the losses that they report."""
        self.record.trained += len(parts)
        self.record.participations += parts
        losses = [(part.loss, part.examples) for part in parts if part.loss is not None and part.examples is not None]
        if losses:
            self.record.train_loss = sum(v * n for v, n in losses) / sum(n for _, n in losses)

    def training(self) -> dict[str, Any]:
        """Return what the last training has written into the record, to be replayed after a break."""
        parts = self.record.participations[self._attempt :]
        parts = [part.alone() for part in parts] if self._hidden else parts
        return {name: getattr(self.record, name) for name in _COUNTS} | {"parts": [asdict(part) for part in parts]}

    def replay(self, training: Mapping[str, Any]) -> list[Participation]:
        """Take over what :meth:`training` returned before a break; return the clients that trained."""
        for name in _COUNTS:
            setattr(self.record, name, training[name])
        parts = [Participation(**part) for part in training["parts"]]
        self.record.participations += [part for part in parts if part.outcome != "trained"]
        return [part for part in parts if part.outcome == "trained"]

    def evaluate(self, source: Literal["test", "client"], metrics: MetricRecord) -> str | None:
        """Note loss, accuracy and RMSE of an evaluation; return what is wrong with its accuracy.

        A client's value that is not finite is left out, because a ledger keeps it for good.
        """
        self.note(source, metrics, *(measured_name(metrics, kind) for kind in KINDS))
        for kind in KINDS:
            value = measured(metrics, kind)
            if value is not None and not math.isfinite(value) and (source == "client" or kind != "accuracy"):
                value = None if source == "client" else math.inf  # SQLite has no NaN
            setattr(self.record, f"{source}_{kind}", value)
        share, caution = as_share(getattr(self.record, f"{source}_accuracy"))
        setattr(self.record, f"{source}_accuracy", share)
        return caution

    def evaluate_clients(self, replies: Mapping[str, Mapping[str, object]]) -> None:
        """Note the accuracy, else the RMSE, of each client's evaluation, by name, as the mean of all has it."""
        kind = "rmse" if self.record.client_accuracy is None else "accuracy"
        for name, metrics in replies.items():
            value = measured(metrics, kind)
            if kind == "accuracy":
                value, _ = as_share(value)
            if value is not None and math.isfinite(value):
                self.record.by_client[name] = value

    def note(self, source: str, metrics: Mapping[str, object], *known: str | None) -> None:
        """Note the finite numbers among metrics, but for those of the ``known`` names."""
        for name in metrics.keys() - set(known):
            value = number_of(metrics[name])
            if value is not None and math.isfinite(value):
                self.record.metrics[f"{source}_{one_line(name)}"] = value

    def observe(self, policy: Policy) -> str | None:
        """Let the policy learn from the round, if it has planned it; return why the run is complete, if it is."""
        if self._view is None:
            return None
        view, self._view = self._view, None  # a view refers to the strategy: no cycle stays
        outcomes = [
            ClientOutcome(
                part.client,
                "ask" if place < self._trainings else "train",
                self.plan.forced and place >= self._attempt,
                part.refreshed,
                cast(Result, "surplus" if part.reason in _EXPECTED else part.outcome),
                part.loss,
                part.seconds,
                part.rounds_late,
            )
            for place, part in enumerate(self.record.participations)
        ]
        complete = policy.observe(RoundOutcome(view, self.plan, outcomes, self.record.declined))
        self._note_entries(self.plan)
        self.record.participations = [_with_terms(part, self.plan) for part in self.record.participations]
        return complete

    def close(self, clock: float | None, epsilon: float | None) -> None:
        """Note how long the round took, by both clocks, and what a private run has spent."""
        self.record.seconds = time.monotonic() - self._begun
        self.record.clock, self.record.epsilon = clock, epsilon


def _with_terms(part: Participation, plan: Plan) -> Participation:
    """Return a participation with its payment, and the φ by which a budget ranked the client."""
    payment, sensitivity = (
        None if values is None or math.isnan(values[part.client]) else float(values[part.client])
        for values in (plan.payments if part.outcome == "trained" else None, plan.sensitivities)
    )
    return part if payment is sensitivity is None else replace(part, payment=payment, sensitivity=sensitivity)
