"""From replies to a new model: hand on what can be used, drop and name what cannot."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from flwr.app import Message

from aoi_fl import protocol
from aoi_fl.config.values import names_of
from aoi_fl.flower.errors import NODE_UNAVAILABLE
from aoi_fl.protocol import ParticipationReply, npy
from aoi_fl.protocol.arrays import model_key, to_record
from aoi_fl.protocol.log import logger
from aoi_fl.protocol.records import BELOW_QUORUM, LOST, Participation
from aoi_fl.science.weighting import capped
from aoi_fl.strategies.aggregation.base import NewModel, is_statistic
from aoi_fl.strategies.aggregation.flower import is_opaque
from aoi_fl.strategies.aggregation.mean import Mean, without_rounding
from aoi_fl.strategies.round.current import Round
from aoi_fl.strategies.round.exchange import Exchange
from aoi_fl.strategies.round.retry import FAILURE
from aoi_fl.strategies.round.shared import Shared
from aoi_fl.strategies.validation import (
    Refused,
    Update,
    check_name,
    declining_rule,
    one_line,
    read_answer,
    read_update,
)
from aoi_fl.strategies.weighting import UNBIASED


@dataclass(frozen=True)
class Work:
    """What one client does, or has done, with the model of a round.

    Attributes
    ----------
    client, round, weight : its client, its round, and its ω there, in units of the mean one where these are
        shares of the round; NaN: the number of examples
    sent : seconds at which it was sent the model
    comes : seconds at which its update comes; infinite: never, or not known yet
    stops : seconds until which its device works on it, where no update comes of it; infinite: not known
    update : what came of it, with changes of that model for arrays; None: not known yet
    origin : takes its reply; None: of a run before a break
    """

    client: int
    round: int
    weight: float
    sent: float
    comes: float = math.inf
    stops: float = math.inf
    update: Update | None = None
    origin: "Collector | None" = None


class Collector:
    """Takes the training replies of one plan, one at a time, and writes the round's record.

    Parameters
    ----------
    run : the run
    round_ : the round, with its plan and model
    origins : the collectors of earlier rounds, by clients that still work on their models
    unit : what a weight counts in; None: as the plan's weights say
    for_step : whether a step of a subclass makes the model, and takes the replies from ``held``

    Attributes
    ----------
    plan, model, sent, round : the plan, the model, the second at which it was sent, and the number of the round
    weights : ω by client, in units of ``unit``
    held : accepted replies and updates by client, until all weights are known or for a step of a subclass
    exchange : of the messages of clients that work on when the round is over, with a barrier
    """

    exchange: Exchange | None = None

    def __init__(
        self,
        run: Shared,
        round_: Round,
        *,
        origins: Mapping[int, "Collector"],
        unit: float | None = None,
        for_step: bool = False,
    ) -> None:
        self._run, self._roster, self._options, self._clock = run, run.roster, run.options, run.clock
        self.plan, self.model, self.sent, self.round = round_.plan, round_.model, round_.sent, round_.number
        self._of, self._intake, self._origins = round_, run.aggregation, origins
        self._again = run.resume is not None and round_.number == run.first
        clients, weights = self.plan.clients.tolist(), self.plan.weights
        self.weights = dict(zip(clients, weights.tolist(), strict=True))
        # A share of a round is larger, the fewer clients take part. A late update counts in units of the mean share.
        self.unit = unit or (1 / len(clients) if math.isclose(float(weights.sum()), 1.0) else 1.0)
        self._refreshed = set() if self.plan.refresh is None else set(self.plan.clients[self.plan.refresh].tolist())
        self._trained: list[Participation] = []
        self._former: dict[int, int] = {}  # the last rounds of the clients that have trained, before this one
        self.held: dict[int, tuple[Message, Update]] = {}
        self._lost: list[str] = []
        self._failures = run.roster.patience.by_kind[FAILURE]
        self._for_step, self._opaque = for_step, is_opaque(self.model)
        if not for_step:
            self._intake.begin(self.round, self.model)
            self._opaque = self._intake.opaque

    def take(self, client: int, reply: Message) -> bool:
        """Hand a client's update on, or note that it declined, or drop its reply; return whether an update counts."""
        origin = self._origins.get(client, self)
        try:
            answer = self._answer(client, reply)
            self._run.note_decision(client, answer)
            if client not in origin.weights:
                raise Refused("the policy did not choose it in this round, so its update has no weight")
            if answer is not None and not answer.takes_part:
                self._decline(client, answer)
                return False
            if origin.plan.undecided:
                self._of.record.willing += 1
            if (last := int(self._roster.last[client])) >= 1 and self.round - last < self._run.separation:
                raise Refused(f"it took part in round {last}, less than {self._run.separation} rounds ago")
            update = origin.read(reply, self._opaque)
            if self._options.buffer:
                self.weights[client] = origin.weights[client] / origin.unit
                update = self._rebased(update, origin)
            if math.isnan(self.weights[client]):
                self.weights[client] = float(update.examples)
            if self._for_step or self._options.max_weight < 1:
                self.held[client] = self._as_received(reply, update) if self._for_step else (reply, update)
            else:
                self._intake.add(client, reply, update, self.weights[client])
        except Refused as reason:
            outcome = "failed" if reply.has_error() else "refused"
            gone = reply.has_error() and reply.error.code == NODE_UNAVAILABLE
            if client in origin.weights and not gone:
                self._failures.note(client)
            self.drop(client, outcome, str(reason), reply.metadata.reply_to_message_id)
            return False
        part = origin.participation(client, update)
        worked = self._clock.worked(reply.metadata.reply_to_message_id)
        seconds, stale = self._clock.came(reply) - origin.sent, self.round - origin.round
        late = stale if self._options.buffer else None
        self._count(replace(part, seconds=seconds, device_seconds=worked, rounds_late=late))
        return True

    def _as_received(self, reply: Message, update: Update) -> tuple[Message, Update]:
        """Return a reply as Flower's FedAvg would receive it, decoded and without our own record."""
        if update.arrays and (key := model_key(reply.content, self._options.arrayrecord_key)) is not None:
            reply.content[key] = to_record(update.arrays)
        reply.content.pop(protocol.AOI, None)
        return reply, replace(update, arrays={})

    def _rebased(self, update: Update, origin: "Collector") -> Update:
        """Return an update of an earlier model as one of this round's; batch statistics move towards the update's."""
        if origin is self:
            return update
        factor, arrays = (1 + self.round - origin.round) ** -self._options.staleness_power, {}
        for name, array in update.arrays.items():
            model = self.model[name].numpy()
            base = model if is_statistic(name, self._options.measured) else origin.model[name].numpy()
            with npy.silent_overflow():
                arrays[name] = without_rounding(np.asarray(model + factor * npy.change(array, base)), model)
            if not npy.is_sound(arrays[name], model):
                raise Refused(f"array {name}, as a change of the current model, does not fit {model.dtype}")
        return replace(update, arrays=arrays)

    def _count(self, part: Participation) -> None:
        client = part.client
        self._trained.append(part)
        self._roster.uncounted.discard(client)
        self._former[client] = int(self._roster.last[client])
        self._roster.last[client] = self.round

    def _decline(self, client: int, answer: ParticipationReply) -> None:
        lost = self._again and answer.trained
        self._of.decline(client, answer, LOST if lost else None)
        if lost:
            self._lost.append(self._roster.name(client))
            self._roster.uncounted.discard(client)
            self._roster.last[client] = self.round  # by its own count

    def replay(self, training: Mapping[str, Any]) -> None:
        """Take the clients of a round that was released before a break; none of them trains a second time."""
        logger.info("Round %d was released before the break: its clients train no second time", self.round)
        for part in self._of.replay(training):
            answer = ParticipationReply(part.name, True, part.age or 0, part.next_round)
            self._run.note_decision(part.client, answer)
            self.weights[part.client] = part.weight or 0.0
            self._count(part)

    def _answer(self, client: int, reply: Message) -> ParticipationReply | None:
        """Return a client's decision; the gate of its device declines by an error that names the owner's rule."""
        if (rule := declining_rule(reply)) is not None:
            age = max(0, self.round - 1 - int(self._roster.last[client]))
            return ParticipationReply(self._roster.own_name(client), takes_part=False, age=age, rule=rule)
        self._run.limit_metrics(client, reply)
        answer = read_answer(reply)
        if answer is not None:
            check_name(answer.name, self._roster.own_name(client))
        return answer

    def work(self, client: int) -> Work:
        """Return what a client does that was sent the model."""
        return Work(client, self.round, self.weights[client] / self.unit, self.sent, origin=self)

    def change(self, client: int, reply: Message) -> Update:
        """Return the update of a client that came when its round was over, less the model that it was made from.

        Raises
        ------
        Refused
            It cannot be used, or the client declined.
        """
        answer = self._answer(client, reply)
        if answer is not None and not answer.takes_part:
            raise Refused("it declined when the round was over")
        update = self.read(reply, self._opaque)
        changes = {name: npy.change(array, self.model[name].numpy()) for name, array in update.arrays.items()}
        return replace(update, arrays=changes)

    def add_late(self, mean: Mean | None, works: Sequence[Work]) -> None:
        """Add what others have made of earlier rounds' models, when all updates in time have been taken.

        Without a mean of ours the clients' parts are noted, and their updates are not used.
        """
        known = [(work, work.update) for work in works if work.update is not None]
        weights = [
            float(update.examples) if math.isnan(work.weight) else work.weight * self.unit for work, update in known
        ]
        late = [self.round - work.round for work, _ in known]
        changes = [update.arrays for _, update in known]
        given = [0.0] * len(known) if mean is None else mean.add_late(changes, weights, late)
        for (work, update), weight, rounds_late in zip(known, given, late, strict=True):
            self._run.note_decision(work.client, update.answer)
            self.weights[work.client] = weight
            seconds = work.comes - work.sent
            worked = None if self._clock.simulated is None else seconds
            part = replace(self.participation(work.client, update), forced=False)  # if it was, then not in this round
            self._count(replace(part, seconds=seconds, device_seconds=worked, rounds_late=rounds_late))

    def drop(self, client: int, outcome: str, reason: str, message_id: str) -> None:
        """Note and name a client without usable work on its message."""
        self._run.drop(
            client,
            outcome,
            reason,
            refreshed=client in self._refreshed,
            seconds=self._clock.now() - self._origins.get(client, self).sent if outcome == "late" else None,
            device_seconds=self._clock.worked(message_id),
        )

    def finish(self) -> NewModel:
        """Return the new model, or None if no update could be used, and the metrics; complete the record.

        A round below its quorum makes no model, and the ages of its clients go on.
        """
        if self._lost:
            logger.warning(
                "Round %d runs again after a break. %d clients had trained in it: %s. Their updates are lost, and they "
                "keep their promise: they train no second time. The round differs from that of an unbroken run.",
                self.round,
                len(self._lost),
                ", ".join(sorted(self._lost)),
            )
        if self._lacks_quorum():
            return None, None
        if self.held:
            clients = list(self.held)
            shares = capped(np.array([self.weights[client] for client in clients]), self._options.max_weight)
            self.weights |= dict(zip(clients, shares.tolist(), strict=True))
            for client, (reply, update) in self.held.items():
                try:
                    self._intake.add(client, reply, update, self.weights[client])
                except Refused as reason:
                    self.refuse({client: str(reason)})
            self.held = {}
            if self._lacks_quorum():
                return None, None
        if self._run.private is not None:
            return self._run.private.finish(self._settle)
        made = self._intake.finish()
        if self._intake.spoiled:
            self.refuse(self._intake.spoiled)
            if self._lacks_quorum():
                self._intake.undo()
                return None, None
        self.complete(self._former)
        return made

    def _settle(self) -> Mapping[str, Any]:
        """Complete the record of a private round before its release; return what is kept of it."""
        self.refuse(self._intake.spoiled)
        self.complete(self._former)
        return self._of.training()

    def _lacks_quorum(self) -> bool:
        """Return whether too few updates can be used, and then let none of them count."""
        must = names_of("must-include", self._options.must_include)
        present = {part.name for part in self._trained}
        if len(self._trained) >= self._options.min_updates and present.issuperset(must):
            return False
        for part in self._trained:
            self._roster.uncounted.add(part.client)
            self._undo(part, "late", BELOW_QUORUM)
        logger.warning("Round %d does not count: %d updates arrived, %s", self.round, len(present), BELOW_QUORUM)
        self._trained, self.held = [], {}
        return True

    def refuse(self, reasons: Mapping[int, str]) -> None:
        """Refuse updates that were accepted, since the aggregation fails with them, by client."""
        spoiled = [part for part in self._trained if part.client in reasons]
        self._trained = [part for part in self._trained if part.client not in reasons]
        for part in spoiled:
            self._undo(part, "refused", one_line(reasons[part.client]))

    def _undo(self, part: Participation, outcome: str, reason: str) -> None:
        """Note that an accepted update does not count; one below the quorum is as good as any."""
        self._roster.last[part.client] = self._former[part.client]
        (self._failures.answer if outcome == "late" else self._failures.note)(part.client)
        self._of.drop(replace(part, outcome=outcome, weight=None, reason=reason))

    def complete(self, used: Collection[int] | None) -> None:
        """Complete the record, where the updates of these clients made the model; None: it is not known which did."""
        if used is not None:
            weights = {part.client: self.weights[part.client] * (part.client in used) for part in self._trained}
            total = 1.0 if self._run.weights == UNBIASED else sum(weights.values())
            if total > 0:
                self._trained = [replace(part, weight=weights[part.client] / total) for part in self._trained]
        for part in self._trained:
            self._failures.answer(part.client)
        self._of.train(self._trained)

    def read(self, reply: Message, opaque: bool) -> Update:
        """Return the update in a reply to this round's model; raise Refused if it cannot be used."""
        return read_update(
            reply,
            self.model,
            self._options.weighted_by_key,
            self._options.code,
            arrays_key=self._options.arrayrecord_key,
            opaque=opaque,
        )

    def participation(self, client: int, update: Update) -> Participation:
        """Return a client's part in this round, without weight and seconds."""
        answer, age = update.answer, int(self.round - 1 - self._roster.last[client])
        return Participation(
            client,
            self._roster.name(client),
            "trained",
            age=age if answer is None or client in self._roster.uncounted else answer.age,
            examples=update.examples,
            loss=update.loss,
            forced=self.plan.forced,
            refreshed=client in self._refreshed,
            next_round=None if answer is None else answer.next_round,
        )
