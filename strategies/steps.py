"""The steps of a round: whom to train, what becomes of the updates, whom to evaluate, what becomes of that.

They are Flower's, and each does its part of the round wherever it is called from: our own ``start``
(:mod:`aoi_fl.strategies.round`), a wrapper of Flower's, or a ``start`` of one's own.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from numpy.typing import NDArray

from aoi_fl.science import draws
from aoi_fl.science.clock import FIRST
from aoi_fl.science.errors import ConfigError
from aoi_fl.strategies import weighting
from aoi_fl.strategies.aggregation.base import Aggregation
from aoi_fl.strategies.aggregation.mean import Mean
from aoi_fl.strategies.bookkeeping import Bookkeeping
from aoi_fl.strategies.collect import Collector
from aoi_fl.strategies.dispatch import Dispatch
from aoi_fl.strategies.evaluation import Evaluation
from aoi_fl.strategies.exchange import Exchange
from aoi_fl.strategies.plan import Plan, Resume, RoundOptions
from aoi_fl.strategies.questions import A, ask_clients
from aoi_fl.strategies.records import Observer
from aoi_fl.wire import protocol
from aoi_fl.wire.coding import NONE
from aoi_fl.wire.protocol import Ask

logger = logging.getLogger("flwr")


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

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Begin the round: call the roll, choose the clients, and return the messages that carry the model to them."""
        if self.options.late_rounds and not self._last:
            raise ConfigError(
                f"late_rounds is {self.options.late_rounds}, but another loop than {type(self).__name__}.start plays "
                "the rounds, and hands no late reply on: leave it out, or call start."
            )
        self._refuse_another_run(server_round)
        self._settle(arrays)
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
        NothingTrainedError
            Somebody else plays the rounds, and in several of them, up to now, not one update could be used: three, or
            ``max_empty_rounds``. (Our own ``start`` knows which round is the last, and goes on until then.)
        """
        collector = Collector(
            self._plan, self._model, self._aggregation, self.weights == weighting.UNBIASED,
            self.roster, self._record, self.learn, self.options, self._clock, self._sent,
        )  # fmt: skip
        before = self._record.aggregate_seconds or 0.0

        def take(client: int, reply: Message) -> bool:
            with self._record.timed("aggregate"):
                return collector.take(client, reply)

        def keep(exchange: Exchange | None, silent: set[int]) -> Collection[int]:
            return self._stragglers.keep(self._record, self._clock, exchange, collector, silent)

        for client in self._take(replies, take, keep):
            collector.drop(client, "late", self._dispatch.why_missing, self._dispatch.message_id(client))
        with self._record.timed("aggregate"):
            if (works := self._stragglers.come(self._record, self._clock)) and isinstance(self._aggregation, Mean):
                collector.add_late(self._aggregation, works)
            arrays, metrics = collector.finish()
        aggregated = (self._record.aggregate_seconds or 0.0) - before
        self._record.add_seconds("train", time.monotonic() - self._step_begun - aggregated)
        self._so_far.trained |= arrays is not None
        self._record.empty = arrays is None
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
        metrics = None
        if self._evaluation is not None:
            for client in self._take(replies, self._evaluation.take):
                self._evaluation.drop(client, self._dispatch.why_missing)
            metrics = self._evaluation.result(self._aggregation)
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

    def _ask_clients(
        self, grid: Grid, kind: str, terms: Ask, whom: NDArray[np.bool_], expected: type[A]
    ) -> Iterator[tuple[int, A]]:
        timeout = self.options.ask_timeout
        return ask_clients(
            grid, self.roster, self._record, kind, lambda client: self.terms(terms, client), whom, expected, timeout
        )

    def _train_messages(self, plan: Plan, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> list[Message]:
        self._step_begun = time.monotonic()
        compression = None if self.options.compression == NONE else self.options.compression
        sizes = self.roster.sizes
        if self.weights == weighting.UNBIASED:
            sizes = self.roster.sizes_of_all("weights 'unbiased'", or_equal=True).astype(np.float64)
            counted = self.counted()
            sizes = sizes if counted is None else np.where(counted, sizes, 0.0)
        weights = weighting.omega(self.weights, plan.clients, plan.weights, sizes, self.rates())
        self._plan = plan = replace(plan, weights=weights, ask=replace(plan.ask, compression=compression))
        self._model = arrays
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
