"""The steps of a round: whom to train, what becomes of the updates, whom to evaluate, what becomes of that.

They are Flower's, and each does its part of the round wherever it is called from: our own ``start``
(:mod:`aoi_fl.strategies.round`), a wrapper of Flower's, or a ``start`` of one's own.

A subclass may replace a step. Replies are judged and recorded before they reach an ``aggregate_train`` or
``aggregate_evaluate`` that is not ours, so that participation, ages and the guard do not depend on ``super()``.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from numpy.typing import NDArray

from aoi_fl.science import draws
from aoi_fl.science.clock import FIRST
from aoi_fl.science.errors import ConfigError
from aoi_fl.strategies import weighting
from aoi_fl.strategies.aggregation.base import MODEL_STAYS, Aggregation, Intake, called, flaw, log_failure
from aoi_fl.strategies.aggregation.flower import in_types_of
from aoi_fl.strategies.aggregation.held import HeldUpdates
from aoi_fl.strategies.aggregation.mean import Mean
from aoi_fl.strategies.bookkeeping import Bookkeeping
from aoi_fl.strategies.collect import Collector
from aoi_fl.strategies.dispatch import Dispatch
from aoi_fl.strategies.evaluation import Evaluation
from aoi_fl.strategies.exchange import Exchange
from aoi_fl.strategies.guard import Refused, check_metrics, read_update
from aoi_fl.strategies.plan import Plan, Resume, RoundOptions
from aoi_fl.strategies.questions import A, ask_clients
from aoi_fl.strategies.records import Observer
from aoi_fl.wire import protocol
from aoi_fl.wire.coding import NONE
from aoi_fl.wire.protocol import Ask

logger = logging.getLogger("flwr")
TrainStep: TypeAlias = Callable[..., tuple[ArrayRecord | None, MetricRecord | None]]
EvaluateStep: TypeAlias = Callable[..., MetricRecord | None]


class Steps(Bookkeeping):
    """The four steps of a round; parameters as in :class:`aoi_fl.strategies.round.AgeAwareStrategy`."""

    def __init__(
        self,
        needs: int,
        aggregation: Aggregation,
        weights: str,
        configure: Callable[[int], dict[str, Any]] | None,
        options: RoundOptions,
        observer: Observer,
        resume: Resume | None,
    ) -> None:
        super().__init__(needs, aggregation, options, observer, resume)
        self.weights, self._configure = weights, configure
        self._dispatch = Dispatch(self.roster)
        self._sent = 0.0  # by the clock: when the round's model was
        self._held: tuple[HeldUpdates, Collector] | None = None  # while a step that is not ours has the updates
        self._judging = False  # while one has the evaluations
        self._said_once: set[str] = set()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Begin the round: call the roll, choose the clients, and return the messages that carry the model to them."""
        if self.options.late_rounds and not self._last:
            raise ConfigError(
                f"late_rounds is {self.options.late_rounds}, but another loop than {type(self).__name__}.start plays "
                "the rounds, and hands no late reply on: leave it out, or call start."
            )
        if self.options.serve_average and not self._last:
            raise ConfigError(
                f"serve_average is {self.options.serve_average}, but another loop than {type(self).__name__}.start "
                "plays the rounds, and evaluates the model that it has: leave it out, or call start."
            )
        self._refuse_another_run(server_round)
        self._settle(arrays)
        self._judge_first()
        self._open(server_round, grid)
        with self._record.timed("ask"):
            plan = self.choose(self._ask(server_round), grid)
            if not len(plan.clients):
                plan = self.rescue(self._ask(server_round)) or plan
        self._outstanding, self._withheld = not self._last, False
        return self._train_messages(plan, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Hand the updates on as they come; drop and name what cannot be used.

        Raises
        ------
        ConfigError
            A loop that is not ours has begun no round with :meth:`configure_train`.
        NothingTrainedError
            Somebody else plays the rounds, and in several of them, up to now, not one update could be used: three, or
            ``max_empty_rounds``. (Our own ``start`` knows which round is the last, and goes on until then.)
        """
        if self._held is not None:
            return self._aggregate_held(*self._held, replies)
        collector, unanswered, before = self._gather(server_round, replies, self._aggregation)

        def make() -> tuple[ArrayRecord | None, MetricRecord | None]:
            self._add_late(collector)
            return collector.finish()

        return self._conclude(make, unanswered, before)

    def _judge_first(self) -> None:
        """Have replies judged and recorded before they reach a step that is not ours."""
        for name, judged in (("aggregate_train", self._train_by), ("aggregate_evaluate", self._evaluate_by)):
            if not is_ours(step := getattr(self, name)):
                setattr(self, name, judged(step))

    def _train_by(self, step: TrainStep) -> TrainStep:
        """Return a step that hands accepted updates to another, and does all else that ours does."""

        def aggregate_train(
            server_round: int, replies: Iterable[Message]
        ) -> tuple[ArrayRecord | None, MetricRecord | None]:
            held = HeldUpdates(self.options)
            collector, unanswered, before = self._gather(server_round, replies, held)

            def make() -> tuple[ArrayRecord | None, MetricRecord | None]:
                self._held = held, collector
                try:
                    arrays, metrics = step(server_round, held.in_order())
                except Exception as error:  # over what a client has sent
                    log_failure(server_round, MODEL_STAYS, called(held.replies), error)
                    arrays, metrics = None, None
                finally:
                    self._held = None
                self._add_late(collector, held.used is not None)
                collector.complete(held.used)
                if held.replies and held.used is None:
                    self._say_once(
                        f"aggregate_train of {type(self).__name__} makes the model without super(): who took part is "
                        "recorded, but with what weight is not known."
                    )
                return self._usable(arrays, held.replies), metrics

            return self._conclude(make, unanswered, before)

        return aggregate_train

    def _aggregate_held(
        self, held: HeldUpdates, collector: Collector, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Aggregate what a subclass hands on of the accepted updates, perhaps changed."""
        client_of = {reply.metadata.reply_to_message_id: client for client, reply in held.replies.items()}
        held.used = set() if held.used is None else held.used
        self._aggregation.begin(self._record.round, self._model)
        for reply in replies:
            client = client_of.get(reply.metadata.reply_to_message_id)
            if client is None:
                continue
            try:
                update = read_update(
                    reply,
                    self._model,
                    self.options.weighted_by_key,
                    arrays_key=self.options.arrayrecord_key,
                    opaque=self._aggregation.opaque,
                )
            except Refused as reason:
                whose = f"{type(self).__name__} made of the update of {self.roster.name(client)}"
                logger.warning("Round %d: what %s is not used: %s", self._record.round, whose, reason)
                continue
            self._aggregation.add(client, reply, update, held.weights[client])
            held.used.add(client)
        held.used.update(self._add_late(collector))
        return self._aggregation.finish()

    def _add_late(self, collector: Collector, used: bool = True) -> list[int]:
        """Add the updates of earlier rounds that have come by now; return the clients."""
        works = self._stragglers.come(self._record, self._clock)
        if works:
            collector.add_late(self._aggregation if used and isinstance(self._aggregation, Mean) else None, works)
        return [work.client for work in works]

    def _usable(self, arrays: ArrayRecord | None, clients: Iterable[int]) -> ArrayRecord | None:
        """Return a model that a step of a subclass made; None, so that the model stays, where it is not finite."""
        if arrays is None:
            return None
        if why := flaw(arrays, self._model):
            log_failure(self._record.round, MODEL_STAYS, called(clients), why)
            return None
        return in_types_of(self._model, arrays)

    def _say_once(self, text: str) -> None:
        if text not in self._said_once:
            self._said_once.add(text)
            logger.warning("%s", text)

    def _gather(self, round_: int, replies: Iterable[Message], intake: Intake) -> tuple[Collector, int, float]:
        """Hand a round's updates on; return the collector, the clients dropped before, and the seconds of adding."""
        if self._joining is None:
            kind = type(self).__name__
            raise ConfigError(
                f"aggregate_train is called for round {round_}, but configure_train of {kind} has begun no round: call "
                "super().configure_train in it, or override choose in its place."
            )
        collector = Collector(
            self._plan, self._model, intake, self.weights == weighting.UNBIASED,
            self.roster, self._record, self.learn, self.options, self._clock, self._sent,
        )  # fmt: skip
        unanswered, before = self._record.dropped, self._record.aggregate_seconds or 0.0

        def take(client: int, reply: Message) -> bool:
            with self._record.timed("aggregate"):
                return collector.take(client, reply)

        def keep(exchange: Exchange | None, silent: set[int]) -> Collection[int]:
            return self._stragglers.keep(self._record, self._clock, exchange, collector, silent)

        for client in self._take(replies, take, keep):
            collector.drop(client, "late", self._dispatch.why_missing, self._dispatch.message_id(client))
        return collector, unanswered, before

    def _conclude(
        self,
        make: Callable[[], tuple[ArrayRecord | None, MetricRecord | None]],
        unanswered: int,
        before: float,
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Have the model made, and complete the round's record."""
        with self._record.timed("aggregate"):
            arrays, metrics = make()
        aggregated = (self._record.aggregate_seconds or 0.0) - before
        self._record.add_seconds("train", time.monotonic() - self._step_begun - aggregated)
        self._so_far.trained |= arrays is not None
        self._record.empty = arrays is None
        self.observe(unanswered)
        if not self._last:
            self._outstanding, self._unrecorded = False, self._model if arrays is None else arrays
            if not self._record.declined:
                self._check_training()
        return arrays, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Return evaluation messages for some of the clients, drawn at random."""
        self._settle(arrays)
        self._open(server_round, grid)
        self._step_begun = time.monotonic()
        self._unrecorded, self._evaluation = arrays, None
        if self._so_far.unevaluable or not self.options.evaluators(int(self.roster.available.sum())):
            return []
        # Answers to it would be lost in a break, and asking again takes time, which is part of the run where simulated.
        rides = self._last != server_round and self._clock.simulated is None
        ahead = self.ahead(self._ask(server_round + 1)) if rides else None
        self._evaluation = Evaluation(
            self.options,
            self.roster,
            self._record,
            self._ask(server_round),
            ahead,
            self.terms,
            self.hear,
        )
        nodes = {self.roster.node(client): client for client in self._evaluation.clients}
        drafts = self._aggregation.to_evaluate(server_round, arrays, config, list(nodes), grid)
        terms = {node: self._evaluation.terms(client) for node, client in nodes.items()}
        return self._dispatch.messages(protocol.EVALUATE, drafts, terms)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Have the clients' metrics aggregated."""
        if self._judging:
            return self._aggregation.evaluated(server_round, [reply for reply in replies if self._counts(reply)])
        return self._evaluated(server_round, replies, self._aggregation.evaluated)

    def _evaluate_by(self, step: EvaluateStep) -> EvaluateStep:
        """Return a step that hands accepted evaluations to another, and does all else that ours does."""

        def evaluated(server_round: int, replies: Sequence[Message]) -> MetricRecord | None:
            self._judging = True
            try:
                return step(server_round, replies)
            finally:
                self._judging = False

        def aggregate_evaluate(server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
            return self._evaluated(server_round, replies, evaluated)

        return aggregate_evaluate

    def _counts(self, reply: Message) -> bool:
        try:
            check_metrics(reply, self.options.weighted_by_key)
        except Refused as reason:
            kind = type(self).__name__
            logger.warning("Round %d: an evaluation is not used as %s changed it: %s", self._record.round, kind, reason)
            return False
        return True

    def _evaluated(
        self,
        server_round: int,
        replies: Iterable[Message],
        make: Callable[[int, Sequence[Message]], MetricRecord | None],
    ) -> MetricRecord | None:
        """Accept and drop evaluations, have metrics made of them, and complete the round's record."""
        metrics = None
        if self._evaluation is None:  # whoever asked for them was not ours
            self._adopt_evaluation(server_round, replies := list(replies))
        if self._evaluation is not None:
            for client in self._take(replies, self._evaluation.take):
                self._evaluation.drop(client, self._dispatch.why_missing)
            metrics = make(server_round, self._evaluation.accepted())
            self._so_far.evaluated |= metrics is not None
            self._unable |= self._evaluation.unable
            here = np.flatnonzero(self.roster.available).tolist()
            if here and self._unable.issuperset(here) and not self._so_far.evaluated:
                logger.warning("No client could evaluate the model: none is asked again (fraction_evaluate=0).")
                self._so_far.unevaluable = True
            self._record.add_seconds("evaluate", time.monotonic() - self._step_begun)
        if metrics is not None:
            self._record.judge("client", metrics)
        self._close()
        return metrics

    def _adopt_training(self, round_: int, arrays: ArrayRecord, messages: Sequence[Message], grid: Grid) -> None:
        """Take up a round whose clients ``configure_train`` of a subclass chose without ``super()``."""
        self._open(round_, grid)
        sent = self._dispatch.adopt(protocol.TRAIN, messages)
        kind, clients = type(self).__name__, np.array(sorted(sent), np.int64)
        self._say_once(
            f"configure_train of {kind} chooses the clients without super(): the policy is not asked, and clients "
            "decide nothing. To keep the policy, call super().configure_train, or override choose."
        )
        self._record.willing = len(clients)
        self._weigh(Plan(clients, np.full(len(clients), np.nan), self._ask(round_)), arrays)
        self._step_begun, self._sent = time.monotonic(), self._clock.now()

    def _adopt_evaluation(self, round_: int, messages: Iterable[Message]) -> None:
        """Take up evaluations that ``configure_evaluate`` of a subclass asked for without ``super()``."""
        sent = self._dispatch.adopt(protocol.EVALUATE, messages)
        if not sent or self._record.round != round_:
            return
        self._step_begun = time.monotonic()
        ask, clients = self._ask(round_), sorted(sent)
        self._evaluation = Evaluation(
            self.options, self.roster, self._record, ask, None, self.terms, self.hear, clients
        )

    def _ask_clients(
        self, grid: Grid, kind: str, terms: Ask, whom: NDArray[np.bool_], expected: type[A]
    ) -> Iterator[tuple[int, A]]:
        timeout = self.options.ask_timeout
        return ask_clients(
            grid, self.roster, self._record, kind, lambda client: self.terms(terms, client), whom, expected, timeout
        )

    def _train_messages(self, plan: Plan, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> list[Message]:
        self._step_begun = time.monotonic()
        plan = self._weigh(plan, arrays)
        extra = {} if self._configure is None else self._configure(plan.ask.round)
        config = ConfigRecord({**config, "server-round": plan.ask.round, **extra})
        nodes = [self.roster.node(client) for client in plan.clients.tolist()]
        drafts = self._aggregation.to_train(plan.ask.round, arrays, config, nodes, grid)
        refresh = [False] * len(nodes) if plan.refresh is None else plan.refresh.tolist()
        asks = [
            replace(self.terms(plan.ask, client), refresh=flag)
            for client, flag in zip(plan.clients.tolist(), refresh, strict=True)
        ]
        terms = dict(zip(nodes, asks, strict=True))
        self._sent = self._clock.now()
        return self._dispatch.messages(protocol.TRAIN, drafts, terms, asleep=self.asleep())

    def _weigh(self, plan: Plan, arrays: ArrayRecord) -> Plan:
        """Make a plan the round's, with the weights ω that its updates will have."""
        compression = None if self.options.compression == NONE else self.options.compression
        sizes = self.roster.sizes
        if self.weights == weighting.UNBIASED:
            sizes = self.roster.sizes_of_all("weights 'unbiased'", or_equal=True).astype(np.float64)
            counted = self.counted()
            sizes = sizes if counted is None else np.where(counted, sizes, 0.0)
        weights = weighting.omega(self.weights, plan.clients, plan.weights, sizes, self.rates())
        self._plan = replace(plan, weights=weights, ask=replace(plan.ask, compression=compression))
        self._model = arrays
        return self._plan

    def _send(self, grid: Grid, messages: Iterable[Message], timeout: float, *, one_by_one: bool) -> Exchange:
        ordered = one_by_one and self.options.deterministic
        enough, late = (self.options.enough, self.options.late_rounds) if one_by_one else (None, 0)
        keep = late * timeout if late else None  # a round takes no longer, but for its question
        seed, round_, clients = self.options.seed, self._record.round, len(self.roster)
        lots = None if enough is None else draws.uniforms(seed, round_, FIRST, clients)
        return self._dispatch.send(
            grid, messages, timeout, one_by_one=one_by_one, ordered=ordered, enough=enough, keep=keep, lots=lots
        )

    def _take(
        self,
        replies: Iterable[Message],
        take: Callable[[int, Message], bool],
        keep: Callable[[Exchange | None, set[int]], Collection[int]] = lambda exchange, silent: (),
    ) -> list[int]:
        self._record.messages += 2 * self._dispatch.count
        return self._dispatch.take(replies, self._record.round, take, keep)


def is_ours(step: Callable[..., Any]) -> bool:
    """Tell a step of ours, which reads replies once, from a subclass's, which may expect a list, as from Flower."""
    return (getattr(step, "__module__", None) or "").startswith("aoi_fl.")
