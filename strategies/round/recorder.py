"""The record of a round. Entries that need more than an assignment are written here."""

import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, Literal

from flwr.app import MetricRecord

from aoi_fl.protocol import ParticipationReply
from aoi_fl.protocol.measures import KINDS, as_share, measured, measured_name, number_of
from aoi_fl.protocol.records import Participation, Phase, RoundRecord
from aoi_fl.science.errors import ConfigError
from aoi_fl.strategies.policy import Plan
from aoi_fl.strategies.validation import one_line

logger = logging.getLogger("flwr")
_OF_PLANS = ("spent", "dropout")  # entries that a plan may set
_COUNTS = ("willing", "declined", "dropped")  # of clients, which the training completes


class RoundRecorder:
    """Writes the record of one round.

    Parameters
    ----------
    round_ : the round
    hidden : whether the log has nothing of what clients report

    Attributes
    ----------
    record : the record
    """

    def __init__(self, round_: int, hidden: bool = False) -> None:
        self._hidden = hidden
        self.record = RoundRecord(round_, started=time.time())
        self._begun = time.monotonic()

    @property
    def round(self) -> int:
        """The round."""
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

    def exchanged(self, exchanges: int) -> None:
        """Count messages: one down and one up an exchange."""
        self.record.messages += 2 * exchanges

    def plan(self, plan: Plan, policy: str) -> None:
        """Note what a plan says of the round.

        Raises
        ------
        ConfigError
            The plan sets an entry that no plan may set.
        """
        if plan.undecided:
            self.record.asked = len(plan.clients)
        elif plan.forced:
            self.record.forced = True
        else:
            self.record.willing = plan.willing
        for name, value in plan.ledger.items():
            if name not in _OF_PLANS:
                raise ConfigError(f"ledger of {policy}.plan", name, _OF_PLANS, "Leave other entries out.")
            setattr(self.record, name, value)

    def decline(self, client: int, answer: ParticipationReply) -> None:
        """Count a client that declined; name it if it did so by a rule of its owner."""
        self.record.declined += 1
        if answer.rule is not None:
            reason = f"by its owner's rule: {one_line(answer.rule)}"
            self.record.participations.append(
                Participation(client, answer.name, "declined", age=answer.age, reason=reason)
            )

    def lose(self, part: Participation) -> None:
        """Count and name a client that has trained in this round before a break, so that its update is lost."""
        self.record.declined += 1
        self.record.participations.append(part)

    def training(self, since: int) -> dict[str, Any]:
        """Return what the training has written into the record, to be replayed after a break.

        Parameters
        ----------
        since : number of the participations before it
        """
        parts = self.record.participations[since:]
        parts = [part.alone() for part in parts] if self._hidden else parts
        return {name: getattr(self.record, name) for name in _COUNTS} | {"parts": [asdict(part) for part in parts]}

    def replay(self, training: Mapping[str, Any]) -> list[Participation]:
        """Take over what :meth:`training` returned before a break; return the clients that trained."""
        for name in _COUNTS:
            setattr(self.record, name, training[name])
        parts = [Participation(**part) for part in training["parts"]]
        self.record.participations += [part for part in parts if part.outcome != "trained"]
        return [part for part in parts if part.outcome == "trained"]

    def drop(self, part: Participation, quietly: bool = False) -> None:
        """Count, name and log a client without usable work; ``quietly`` if that is expected."""
        self.record.dropped += 1
        self.record.participations.append(part)
        level = logging.DEBUG if quietly else logging.WARNING
        client = f"{part.name} (client {part.client})"
        reason = part.alone().reason if self._hidden else part.reason
        logger.log(level, "Round %d: %s %s: %s", self.round, client, part.outcome, reason)

    def train(self, parts: Sequence[Participation]) -> None:
        """Note the clients that trained, and the mean of the losses that they report."""
        self.record.trained += len(parts)
        self.record.participations += parts
        losses = [(part.loss, part.examples) for part in parts if part.loss is not None and part.examples is not None]
        if losses:
            self.record.train_loss = sum(v * n for v, n in losses) / sum(n for _, n in losses)

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

    def pay(self, plan: Plan) -> None:
        """Note the payment of each update, the φ by which a budget ranked a client, and the plan's own entries."""
        for name, value in plan.ledger.items():
            setattr(self.record, name, value)
        self.record.participations = [_with_terms(part, plan) for part in self.record.participations]

    def close(self, clock: float | None, epsilon: float | None) -> None:
        """Note how long the round took, by both clocks, and what a private run has spent."""
        self.record.seconds = time.monotonic() - self._begun
        self.record.clock, self.record.epsilon = clock, epsilon


def _with_terms(part: Participation, plan: Plan) -> Participation:
    payment, sensitivity = (
        None if values is None or math.isnan(values[part.client]) else float(values[part.client])
        for values in (plan.payments if part.outcome == "trained" else None, plan.sensitivities)
    )
    return part if payment is sensitivity is None else replace(part, payment=payment, sensitivity=sensitivity)
