"""From replies to a new model: hand on what can be used, drop and name what cannot."""

import logging
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from flwr.app import ArrayRecord, Message, MetricRecord

from aoi_fl.protocol import ParticipationReply, npy
from aoi_fl.protocol.coding import NONE
from aoi_fl.strategies.aggregation.base import Intake
from aoi_fl.strategies.aggregation.mean import Mean
from aoi_fl.strategies.clock import Clock
from aoi_fl.strategies.plan import RoundOptions
from aoi_fl.strategies.policy import Plan
from aoi_fl.strategies.records import SURPLUS, Participation, RoundRecord
from aoi_fl.strategies.roster import Roster
from aoi_fl.strategies.validation import Refused, Update, check_name, one_line, read_answer, read_update

logger = logging.getLogger("flwr")


@dataclass(frozen=True)
class Work:
    """What one client does, or has done, with the model of a round.

    Attributes
    ----------
    client, round, weight : whose it is, of which round, and its ω in that, in units of the mean one where these are
        shares of the round; NaN: the number of examples
    sent : seconds at which it was sent the model
    comes : seconds at which its update comes; infinite: never, or not known yet
    stops : seconds until which its device works on it, where no update comes of it; infinite: not known
    update : what came of it, with changes of that model for arrays; None: not known yet
    """

    client: int
    round: int
    weight: float
    sent: float
    comes: float = math.inf
    stops: float = math.inf
    update: Update | None = None


class Collector:
    """Takes the training replies of one plan, one at a time, and writes the round's record.

    Parameters
    ----------
    plan, model : who was sent which model
    aggregation : what makes a model of the updates
    on_updates : whether the weights act on updates, and need not sum to 1
    roster : the clients
    record : the round's record, completed here
    learn : told what each client answered
    options : names of records and metrics
    clock : when replies come, and how long clients worked on them
    sent : by it, when the model was sent
    separation : the least number of rounds between two participations of a client that count
    """

    def __init__(
        self,
        plan: Plan,
        model: ArrayRecord,
        aggregation: Intake,
        on_updates: bool,
        roster: Roster,
        record: RoundRecord,
        learn: Callable[[int, ParticipationReply | None], None],
        options: RoundOptions,
        clock: Clock,
        sent: float,
        separation: int = 1,
    ) -> None:
        self._clock = clock
        self._plan, self._model, self._roster, self._record = plan, model, roster, record
        self._aggregation, self._on_updates = aggregation, on_updates
        self._learn, self._options = learn, options
        self._weight = dict(zip(plan.clients.tolist(), plan.weights.tolist(), strict=True))
        # Where weights are shares of a round, a share is more the fewer take part: of another round it is told in units
        # of the mean share.
        self._unit = 1 / len(plan.clients) if math.isclose(float(plan.weights.sum()), 1.0) else 1.0
        self._refreshed = set() if plan.refresh is None else set(plan.clients[plan.refresh].tolist())
        self._trained: list[Participation] = []
        self._sent, self._separation = sent, separation
        self.round = record.round
        aggregation.begin(record.round, model)

    def take(self, client: int, reply: Message) -> bool:
        """Hand a client's update on, or note that it declined, or drop its reply; return whether an update counts."""
        try:
            answer = read_answer(reply)
            if answer is not None:
                check_name(answer.name, self._roster.name(client))
            self._learn(client, answer)
            if client not in self._weight:
                raise Refused("the policy did not choose it in this round, so its update has no weight")
            if answer is not None and not answer.takes_part:
                decline(self._record, client, answer)
                return False
            if self._plan.undecided:
                self._record.willing += 1
            if (last := int(self._roster.last[client])) >= 1 and self.round - last < self._separation:
                raise Refused(f"it took part in round {last}, less than {self._separation} rounds ago")
            update = self._read(reply)
        except Refused as reason:
            outcome = "failed" if reply.has_error() else "refused"
            self.drop(client, outcome, str(reason), reply.metadata.reply_to_message_id)
            return False
        if math.isnan(self._weight[client]):
            self._weight[client] = float(update.examples)
        self._aggregation.add(client, reply, update, self._weight[client])
        part = self._participation(client, update)
        worked = self._clock.worked(reply.metadata.reply_to_message_id)
        self._trained.append(replace(part, seconds=self._clock.came(reply) - self._sent, device_seconds=worked))
        self._roster.last[client] = self._record.round
        return True

    def work(self, client: int) -> Work:
        """Return what a client does that was sent the model."""
        return Work(client, self.round, self._weight[client] / self._unit, self._sent)

    def change(self, client: int, reply: Message) -> Update:
        """Return the update of a client that came when its round was over, less the model that it was made from.

        Raises
        ------
        Refused
            It cannot be used, or the client declined.
        """
        answer = read_answer(reply)
        if answer is not None:
            check_name(answer.name, self._roster.name(client))
            if not answer.takes_part:
                raise Refused("it declined when the round was over")
        update = self._read(reply)
        changes = {name: npy.change(array, self._model[name].numpy()) for name, array in update.arrays.items()}
        return replace(update, arrays=changes)

    def add_late(self, mean: Mean | None, works: Sequence[Work]) -> None:
        """Add what others have made of earlier rounds' models, when all updates in time have been taken.

        Without a mean of ours the clients' parts are noted, and their updates are not used.
        """
        known = [(work, work.update) for work in works if work.update is not None]
        weights = [
            float(update.examples) if math.isnan(work.weight) else work.weight * self._unit for work, update in known
        ]
        late = [self.round - work.round for work, _ in known]
        changes = [update.arrays for _, update in known]
        given = [0.0] * len(known) if mean is None else mean.add_late(changes, weights, late)
        for (work, update), weight, rounds_late in zip(known, given, late, strict=True):
            self._learn(work.client, update.answer)
            self._weight[work.client] = weight
            seconds = work.comes - work.sent
            part = self._participation(work.client, update)
            worked = None if self._clock.simulated is None else seconds
            part = replace(part, seconds=seconds, device_seconds=worked, rounds_late=rounds_late)
            self._trained.append(replace(part, forced=False))  # if it was, then not in this round
            self._roster.last[work.client] = self.round

    def drop(self, client: int, outcome: str, reason: str, message_id: str) -> None:
        """Note and name a client whose work on a message cannot be used this round."""
        part = Participation(
            client,
            self._roster.name(client),
            outcome,
            refreshed=client in self._refreshed,
            seconds=self._clock.now() - self._sent if outcome == "late" else None,
            device_seconds=self._clock.worked(message_id),
            reason=reason,
        )
        drop(self._record, part, quietly=reason == SURPLUS)

    def finish(self) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the new model, or None if no update could be used, and the metrics; complete the record."""
        self.complete([part.client for part in self._trained])
        return self._aggregation.finish()

    def complete(self, used: Collection[int] | None) -> None:
        """Complete the record, where the updates of these clients made the model; None: it is not known which did."""
        if used is not None:
            weights = {part.client: self._weight[part.client] * (part.client in used) for part in self._trained}
            total = 1.0 if self._on_updates else sum(weights.values())
            if total > 0:
                self._trained = [replace(part, weight=weights[part.client] / total) for part in self._trained]
        self._record.trained += len(self._trained)
        self._record.participations += self._trained
        told = [(p.loss, p.examples) for p in self._trained if p.loss is not None and p.examples is not None]
        if told:
            self._record.train_loss = sum(v * n for v, n in told) / sum(n for _, n in told)

    def _read(self, reply: Message) -> Update:
        return read_update(
            reply,
            self._model,
            self._options.weighted_by_key,
            None if self._options.compression == NONE else self._options.compression,
            arrays_key=self._options.arrayrecord_key,
            opaque=self._aggregation.opaque,
            loss_key=self._options.loss_metric,
        )

    def _participation(self, client: int, update: Update) -> Participation:
        answer = update.answer
        return Participation(
            client,
            self._roster.name(client),
            "trained",
            age=int(self._record.round - 1 - self._roster.last[client]) if answer is None else answer.age,
            examples=update.examples,
            loss=update.loss,
            forced=self._plan.forced,
            refreshed=client in self._refreshed,
            next_round=None if answer is None else answer.next_round,
        )


def decline(record: RoundRecord, client: int, answer: ParticipationReply) -> None:
    """Note in a round's record that a client declined; one that did so by a rule of its owner's also by name."""
    record.declined += 1
    if answer.rule is not None:
        reason = f"by its owner's rule: {one_line(answer.rule)}"
        record.participations.append(Participation(client, answer.name, "declined", age=answer.age, reason=reason))


def drop(record: RoundRecord, part: Participation, quietly: bool = False) -> None:
    """Note in a round's record, and say aloud unless that is to be expected, that a client's work cannot be used."""
    record.dropped += 1
    record.participations.append(part)
    level = logging.DEBUG if quietly else logging.WARNING
    who = f"{part.name} (client {part.client})"
    logger.log(level, "Round %d: %s %s: %s", record.round, who, part.outcome, part.reason)
