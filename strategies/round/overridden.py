"""Steps that a subclass overrides receive checked replies, and the record does not depend on ``super()``."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from aoi_fl import protocol
from aoi_fl.protocol.arrays import model_key
from aoi_fl.protocol.own_code import call_own
from aoi_fl.science.errors import ConfigError
from aoi_fl.strategies.aggregation.base import MODEL_STAYS, NO_METRICS, Intake, called, flaw, log_failure, nodes_of
from aoi_fl.strategies.aggregation.flower import in_types_of, is_opaque
from aoi_fl.strategies.aggregation.metrics import metrics_or_none, model_and_metrics, whole
from aoi_fl.strategies.plan import RoundOptions
from aoi_fl.strategies.policy import Plan
from aoi_fl.strategies.round.collection import Collector
from aoi_fl.strategies.round.dispatch import Dispatch
from aoi_fl.strategies.round.evaluation import EvaluationStep
from aoi_fl.strategies.round.run import Run
from aoi_fl.strategies.round.training import TrainingStep
from aoi_fl.strategies.validation import Refused, Update, read_update

logger = logging.getLogger("flwr")
T = TypeVar("T")
TrainStep: TypeAlias = Callable[..., tuple[ArrayRecord | None, MetricRecord | None]]
EvaluateStep: TypeAlias = Callable[..., MetricRecord | None]


def is_ours(step: Callable[..., Any]) -> bool:
    """Tell a step of ours, which reads replies once, from one that may expect a list, as from Flower."""
    return (getattr(step, "__module__", None) or "").startswith("aoi_fl.")


class OverriddenSteps:
    """Wraps the steps of a subclass.

    Parameters
    ----------
    run, dispatch, training, evaluation : the parts of the rounds
    """

    def __init__(self, run: Run, dispatch: Dispatch, training: TrainingStep, evaluation: EvaluationStep) -> None:
        self._run, self._dispatch, self._training, self._evaluation = run, dispatch, training, evaluation
        self.held: tuple[HeldUpdates, Collector] | None = None  # while a step of a subclass has the updates
        self.has_evaluations = False  # while one has the evaluations
        self._warned: set[str] = set()

    def call(self, name: str, step: Callable[..., Any], *arguments: Any, made: Callable[[Any], T]) -> T:
        """Call a step, which may be a subclass's."""
        where, wanted = f"{name} of {self._run.strategy}", "one that returns what Flower's strategies do"
        return call_own(where, step, *arguments, made=made, wanted=wanted)

    def wrap(self, strategy: Strategy) -> None:
        """Have replies checked and recorded before they reach a step that is not ours."""
        for name, wrapped in (("aggregate_train", self._train_by), ("aggregate_evaluate", self._evaluate_by)):
            if not is_ours(step := getattr(strategy, name)):
                setattr(strategy, name, wrapped(step))

    def aggregate(
        self, replies: Iterable[Message], held: "HeldUpdates", collector: Collector
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Aggregate the accepted updates that a subclass hands on, perhaps changed."""
        run = self._run
        aggregation, model = run.aggregation, run.round.model
        client_of = {reply.metadata.reply_to_message_id: client for client, reply in held.replies.items()}
        held.used = set() if held.used is None else held.used
        aggregation.begin(run.round.number, model)
        for reply in replies:
            client = client_of.get(reply.metadata.reply_to_message_id)
            if client is None:
                continue
            try:
                update = read_update(
                    reply,
                    model,
                    run.options.weighted_by_key,
                    arrays_key=run.options.arrayrecord_key,
                    opaque=aggregation.opaque,
                )
            except Refused as reason:
                changed = f"what {run.strategy} made of the update of {run.roster.name(client)}"
                logger.warning("Round %d: %s is not used: %s", run.round.number, changed, reason)
                continue
            try:
                aggregation.add(client, reply, update, held.weights[client])
            except Refused as reason:
                collector.refuse({client: str(reason)})
                continue
            held.used.add(client)
        held.used.update(self._training.add_late(collector))
        return aggregation.finish()

    def adopt_training(self, round_: int, arrays: ArrayRecord, messages: Sequence[Message], grid: Grid) -> None:
        """Take up a round with clients that ``configure_train`` of a subclass chose without ``super()``."""
        run = self._run
        if run.options.buffer:
            allowed = f"0 with a configure_train of {run.strategy} that does not call super()"
            raise ConfigError("buffer", run.options.buffer, allowed, "Call super().configure_train.")
        run.open(round_, grid)
        self._dispatch.begin(protocol.TRAIN)
        clients = np.array(sorted(self._dispatch.by_client(messages)), np.int64)
        self._warn_once(
            f"configure_train of {run.strategy} chooses the clients without super(): the policy is not asked, and "
            "clients decide nothing. To keep the policy, call super().configure_train."
        )
        run.round.recorder.record.willing = len(clients)
        self._training.weigh(Plan(clients, np.full(len(clients), np.nan)), arrays)
        run.round.step_begun, run.round.sent = time.monotonic(), run.clock.now()

    def _train_by(self, step: TrainStep) -> TrainStep:
        """Return a step that hands accepted updates to another, and does all else that ours does."""

        def aggregate_train(
            server_round: int, replies: Iterable[Message]
        ) -> tuple[ArrayRecord | None, MetricRecord | None]:
            held = HeldUpdates(self._run.options)
            collector, before = self._training.collect(replies, held, server_round)

            def make() -> tuple[ArrayRecord | None, MetricRecord | None]:
                self.held = held, collector
                try:
                    arrays, metrics = self.call(
                        "aggregate_train", step, server_round, held.in_order(), made=model_and_metrics
                    )
                except Exception as error:  # over what a client has sent
                    log_failure(server_round, MODEL_STAYS, called(held.replies), error)
                    arrays, metrics = None, None
                finally:
                    self.held = None
                self._training.add_late(collector, held.used is not None)
                if held.used is not None:
                    collector.refuse(self._run.aggregation.spoiled)
                collector.complete(held.used)
                if held.replies and held.used is None:
                    self._warn_once(
                        f"aggregate_train of {self._run.strategy} makes the model without super(): the clients that "
                        "took part are recorded, but their weights are not known."
                    )
                return self._usable(arrays, held.replies), metrics

            return self._training.conclude(make, before)

        return aggregate_train

    def _usable(self, arrays: ArrayRecord | None, clients: Iterable[int]) -> ArrayRecord | None:
        """Return a model that a step of a subclass made; None, so that the model stays, where it is not finite."""
        if arrays is None:
            return None
        if why := flaw(arrays, self._run.round.model):
            log_failure(self._run.round.number, MODEL_STAYS, called(clients), why)
            return None
        return in_types_of(self._run.round.model, arrays)

    def _evaluate_by(self, step: EvaluateStep) -> EvaluateStep:
        """Return a step that hands accepted evaluations to another, and does all else that ours does."""

        def evaluated(server_round: int, replies: Sequence[Message]) -> MetricRecord | None:
            self.has_evaluations = True
            try:
                usable = whole(replies, self._run.options.weighted_by_key)
                return self.call("aggregate_evaluate", step, server_round, usable, made=metrics_or_none)
            except Exception as error:  # over what a client has sent
                log_failure(server_round, NO_METRICS, nodes_of(replies), error)
                return None
            finally:
                self.has_evaluations = False

        def aggregate_evaluate(server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
            return self._evaluation.conclude(server_round, replies, evaluated)

        return aggregate_evaluate

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            logger.warning("%s", text)


class HeldUpdates(Intake):
    """Keeps the accepted replies of a round, in the model's own types, for a step that is not ours.

    Attributes
    ----------
    replies : the accepted replies by client, as Flower's FedAvg would receive them
    weights : ω by client
    used : the clients whose updates came back for the aggregation; None while none was asked for it
    spoiled : none, as the step makes the model
    """

    spoiled: Mapping[int, str] = {}

    def __init__(self, options: RoundOptions) -> None:
        self._options, self.opaque = options, False
        self.replies: dict[int, Message] = {}
        self.weights: dict[int, float] = {}
        self.used: set[int] | None = None

    def begin(self, round_: int, model: ArrayRecord) -> None:
        """Start with no reply; a model of bytes is the step's own to judge."""
        self.opaque = is_opaque(model)

    def add(self, client: int, reply: Message, update: Update, weight: float) -> None:
        """Keep a reply, decoded, without our own record."""
        if update.arrays and (key := model_key(reply.content, self._options.arrayrecord_key)) is not None:
            reply.content[key] = ArrayRecord({k: Array(v) for k, v in update.arrays.items()})
        reply.content.pop(protocol.AOI, None)
        self.replies[client], self.weights[client] = reply, weight

    def finish(self) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return nothing: the step makes the model."""
        return None, None

    def in_order(self) -> Sequence[Message]:
        """Return the replies in client order."""
        return [reply for _, reply in sorted(self.replies.items())]
