"""The steps of a round: whom to train, what becomes of the updates, whom to evaluate, what becomes of that.

They are Flower's, and each does its part of the round wherever it is called from: our own ``start``
(:mod:`aoi_fl.strategies.round`), a wrapper of Flower's, or a ``start`` of one's own.

A subclass may replace a step. Replies are judged and recorded before they reach an ``aggregate_train`` or
``aggregate_evaluate`` that is not ours, so that participation, ages and the guard do not depend on ``super()``.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Literal, TypeAlias

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid

from aoi_fl import protocol
from aoi_fl.protocol import Bid, ParticipationReply, ParticipationRequest, npy
from aoi_fl.protocol.coding import NONE
from aoi_fl.science import draws
from aoi_fl.science.clock import FIRST
from aoi_fl.science.errors import ConfigError
from aoi_fl.strategies import weighting
from aoi_fl.strategies.aggregation.base import (
    MODEL_STAYS,
    NO_METRICS,
    Aggregation,
    Intake,
    called,
    flaw,
    log_failure,
    nodes_of,
)
from aoi_fl.strategies.aggregation.flower import in_types_of, is_opaque
from aoi_fl.strategies.aggregation.held import HeldUpdates
from aoi_fl.strategies.aggregation.mean import Mean
from aoi_fl.strategies.aggregation.metrics import whole
from aoi_fl.strategies.aggregation.private import ByPrivateMean
from aoi_fl.strategies.bookkeeping import Bookkeeping
from aoi_fl.strategies.collect import Collector, decline, drop
from aoi_fl.strategies.dispatch import Dispatch
from aoi_fl.strategies.evaluation import Evaluation
from aoi_fl.strategies.exchange import Exchange
from aoi_fl.strategies.judged import Sieve, judge_replies
from aoi_fl.strategies.measures import evaluation_loss
from aoi_fl.strategies.plan import Resume, RoundOptions
from aoi_fl.strategies.policy import Plan, Policy, RoundView, named
from aoi_fl.strategies.questions import ask_clients
from aoi_fl.strategies.records import Observer, Participation
from aoi_fl.strategies.validation import (
    Refused,
    Update,
    check_metrics,
    check_name,
    is_bounded,
    metrics_of,
    read_answer,
    read_update,
)

logger = logging.getLogger("flwr")
TrainStep: TypeAlias = Callable[..., tuple[ArrayRecord | None, MetricRecord | None]]
EvaluateStep: TypeAlias = Callable[..., MetricRecord | None]


class Steps(Bookkeeping):
    """The four steps of a round; parameters as in :class:`aoi_fl.strategies.round.AgeAwareStrategy`."""

    def __init__(
        self,
        policy: Policy,
        needs: int,
        aggregation: Aggregation,
        weights: str,
        configure: Callable[[int], dict[str, Any]] | None,
        options: RoundOptions,
        observer: Observer,
        resume: Resume | None,
    ) -> None:
        super().__init__(policy, needs, aggregation, options, observer, resume)
        self.weights, self._configure = weights, configure
        self._dispatch = Dispatch(self.roster)
        self._sent = 0.0  # by the clock: when the round's model was
        self._held: tuple[HeldUpdates, Collector] | None = None  # while a step that is not ours has the updates
        self._judging = False  # while one has the evaluations
        self._said_once: set[str] = set()
        self._planned = 0  # the round of the plan
        self._cautioned: set[str] = set()
        self._cautious = False  # the first model has been looked at
        self._per_cent: set[str] = set()  # whose accuracies have been above 1
        self._sieve: Sieve | None = None  # where somebody else plays the rounds

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Begin the round: call the roll, choose the clients, and return the messages that carry the model to them."""
        if not self._last:
            self._refuse_in_another_loop()
        self._refuse_another_run(server_round)
        self._settle(arrays)
        self._judge_first()
        self._caution(arrays)
        self._open(server_round, grid)
        with self._record.timed("ask"):
            self._pace.begin(lambda: self._greet_newcomers(server_round, grid))
            plan = self._make_plan(server_round, arrays, grid)
        self._outstanding, self._withheld = not self._last, False
        if not self._last:
            options = self.options
            self._sieve = Sieve(options.arrayrecord_key, options.weighted_by_key, grid.run.run_id)
            judge_replies(grid, self._judged, self.roster.packing)
        return self._train_messages(plan, arrays, config, grid)

    def _refuse_in_another_loop(self) -> None:
        """Refuse, where another loop than our ``start`` plays the rounds, what only ours can do."""
        start, leave = f"{type(self).__name__}.start", "Leave it out, or call start."
        options, private = self.options, isinstance(self._aggregation, ByPrivateMean)
        for key, value, allowed, why, remedy in (
            ("late_rounds", options.late_rounds, "0", "which hands no late reply on", leave),
            ("serve_average", options.serve_average, "0", "which evaluates the model that it has", leave),
            ("aggregation", "PrivateMean" * private, "left out", "whose number of rounds is unknown", "Call start."),
        ):
            if value:
                raise ConfigError(key, value, f"{allowed} in another loop than {start}, {why}", remedy)

    def _make_plan(self, round_: int, arrays: ArrayRecord, grid: Grid, *, second_attempt: bool = False) -> Plan:
        """Have the policy select clients, and note what that says of the round."""
        traits, record, kind = self.policy.traits, self._record, type(self.policy).__name__
        if traits.sizes != "unused":
            self.roster.sizes_of_all(traits.sizes_for, or_equal=traits.sizes == "optional")
        view = RoundView(
            self.roster,
            record,
            self.population,
            lambda kind, requests: self._query(kind, requests, arrays, grid),
            self._ask(round_),
            seed=self.options.seed,
            first=self._joining is not None and round_ == self._joining.first,
            second_attempt=second_attempt,
        )
        with named(self.policy, "plan"):
            plan = self.policy.plan(view)
        if not isinstance(plan, Plan):
            raise ConfigError(
                f"{kind}.plan", plan, "a function that returns a Plan", "Return an aoi_fl.strategies.Plan."
            )
        plan.check(kind, len(self.roster))
        if second_attempt and not len(plan.clients):
            return plan
        self._view, self._observed = view, False
        for client, reason in plan.refused.items():
            drop(record, Participation(client, self.roster.name(client), "refused", reason=reason))
        if plan.undecided:
            record.asked = len(plan.clients)
        elif plan.forced:
            record.forced = True
        else:
            record.willing = plan.willing
        for name, value in plan.ledger.items():
            setattr(record, name, value)
        return plan

    def _judged(self, replies: list[Message]) -> list[Message]:
        """Return what a loop that is not ours may see of replies: those of a training step are judged first."""
        if self._sieve is None or not any(self._dispatch.trained_by(reply) is not None for reply in replies):
            return replies
        return self._sieve.sort(replies, self._update_of)

    def _update_of(self, reply: Message) -> Update | None:
        """Return the update in a reply of this round's training; None if it is another's.

        Raises
        ------
        Refused
            It cannot be used, or its client declines.
        """
        client = self._dispatch.trained_by(reply)
        if client is None:
            return None
        answer = read_answer(reply)
        if answer is not None:
            check_name(answer.name, self.roster.name(client))
            if not answer.takes_part:
                raise Refused("it declines")
        return read_update(
            reply, self._model, self.options.weighted_by_key,
            None if self.options.compression == NONE else self.options.compression,
            arrays_key=self.options.arrayrecord_key, opaque=self._aggregation.opaque or is_opaque(self._model),
        )  # fmt: skip

    def _hear_refused(self) -> None:
        """Drop and name what a loop that is not ours was not shown, where it has handed nothing on either."""
        if self._outstanding and self._sieve is not None and self._sieve.holds:
            self.aggregate_train(self._record.round, ())

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
        collector, before = self._gather(server_round, replies, self._aggregation)

        def make() -> tuple[ArrayRecord | None, MetricRecord | None]:
            self._add_late(collector)
            return collector.finish()

        return self._conclude(make, before)

    def _caution(self, arrays: ArrayRecord) -> None:
        """Say once of the first model which of its arrays are not finite, as no client is to blame for them."""
        if self._cautious:
            return
        self._cautious = True
        for name, array in arrays.items():
            if np.dtype(array.dtype).kind in "fc" and not npy.is_finite(values := array.numpy()):
                count = int((~np.isfinite(values)).sum())
                logger.warning(
                    "Array %s of the first model holds %d value(s) that are NaN or infinite, of %d. They may stay as "
                    "they are, as in a mask; if %s is trained, give it finite values.", name, count, values.size, name,
                )  # fmt: skip

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
            collector, before = self._gather(server_round, replies, held)

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

            return self._conclude(make, before)

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

    def _judge(self, whose: Literal["test", "client"], metrics: MetricRecord) -> None:
        """Record what an evaluation has measured, and say once of each whose an accuracy that is no share is."""
        caution = self._record.judge(whose, metrics, self.options.loss_metric, per_cent=whose in self._per_cent)
        if caution and whose not in self._cautioned:
            self._cautioned.add(whose)
            name = "test accuracy" if whose == "test" else "mean of the clients' accuracies"
            logger.warning("Round %d: the %s %s", self._record.round, name, caution)
        if caution and whose == "test" and self._record.test_accuracy is not None:  # no client decides that
            self._per_cent.add(whose)

    def _say_once(self, text: str) -> None:
        if text not in self._said_once:
            self._said_once.add(text)
            logger.warning("%s", text)

    def _gather(self, round_: int, replies: Iterable[Message], intake: Intake) -> tuple[Collector, float]:
        """Hand a round's updates on; return the collector, and the seconds of adding before."""
        if self._joining is None:
            kind = type(self).__name__
            raise ConfigError(
                "round",
                round_,
                f"one that {kind}.configure_train has begun",
                "Call super().configure_train in it.",
            )
        collector = Collector(
            self._plan, self._model, intake, self.weights == weighting.UNBIASED,
            self.roster, self._record, self._note_decision, self.options, self._clock, self._sent, self._separation,
        )  # fmt: skip
        before, self._attempt = self._record.aggregate_seconds or 0.0, len(self._record.participations)
        if self._view is None or not self._view.second_attempt:
            self._first_part = self._attempt

        def take(client: int, reply: Message) -> bool:
            with self._record.timed("aggregate"):
                return collector.take(client, reply)

        def keep(exchange: Exchange | None, silent: set[int]) -> Collection[int]:
            return self._stragglers.keep(self._record, self._clock, exchange, collector, silent)

        if self._sieve is not None:
            replies = self._sieve.together(replies)
        for client in self._take(replies, take, keep):
            collector.drop(client, "late", self._dispatch.why_missing, self._dispatch.message_id(client))
        return collector, before

    def _conclude(
        self, make: Callable[[], tuple[ArrayRecord | None, MetricRecord | None]], before: float
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Have the model made, and complete the round's record."""
        with self._record.timed("aggregate"):
            arrays, metrics = make()
        aggregated = (self._record.aggregate_seconds or 0.0) - before
        self._record.add_seconds("train", time.monotonic() - self._step_begun - aggregated)
        self._so_far.trained |= arrays is not None
        self._record.empty = arrays is None
        if not (self._last and self._may_try_again(arrays)):
            self._observe()
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
        coming = self._ask(server_round + 1)

        def ahead(client: int) -> ParticipationRequest | None:
            return self.policy.request_for(coming, client, "evaluate") if rides else None

        self._evaluation = Evaluation(
            self.options, self.roster, self._record, self._plain(self._ask(server_round)), ahead, self._inbox
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
                return step(server_round, whole(replies, self.options.weighted_by_key))
            except Exception as error:  # over what a client has sent
                log_failure(server_round, NO_METRICS, nodes_of(replies), error)
                return None
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
            self._judge("client", metrics)
        self._close()
        return metrics

    def _adopt_training(self, round_: int, arrays: ArrayRecord, messages: Sequence[Message], grid: Grid) -> None:
        """Take up a round whose clients ``configure_train`` of a subclass chose without ``super()``."""
        self._open(round_, grid)
        sent = self._dispatch.adopt(protocol.TRAIN, messages)
        kind, clients = type(self).__name__, np.array(sorted(sent), np.int64)
        self._say_once(
            f"configure_train of {kind} chooses the clients without super(): the policy is not asked, and clients "
            "decide nothing. To keep the policy, call super().configure_train."
        )
        self._record.willing = len(clients)
        self._weigh(Plan(clients, np.full(len(clients), np.nan)), arrays)
        self._step_begun, self._sent = time.monotonic(), self._clock.now()

    def _adopt_evaluation(self, round_: int, messages: Iterable[Message]) -> None:
        """Take up evaluations that ``configure_evaluate`` of a subclass asked for without ``super()``."""
        sent = self._dispatch.adopt(protocol.EVALUATE, messages)
        if not sent or self._record.round != round_:
            return
        self._step_begun = time.monotonic()
        ask, clients = self._plain(self._ask(round_)), sorted(sent)
        self._evaluation = Evaluation(
            self.options, self.roster, self._record, ask, lambda client: None, self._inbox, clients
        )

    def _query(
        self, kind: str, requests: Mapping[int, ParticipationRequest], arrays: ArrayRecord, grid: Grid
    ) -> Iterator[tuple[int, ParticipationReply | Bid | float]]:
        """Ask clients, as :meth:`RoundView.query` says; note and name those that decline, fail or keep silent."""
        record, here = self._record, self.roster.here(self._record.round)
        early = {}
        if kind == protocol.PARTICIPATE:
            answers = ((client, self._inbox.get(request, client)) for client, request in requests.items())
            early = {client: answer for client, answer in answers if answer is not None}
        to_ask = {client: request for client, request in requests.items() if client not in early and here[client]}
        record.asked += len(early)
        if kind == protocol.EVALUATE:
            yield from self._losses(to_ask, arrays, grid)
            return
        if kind == protocol.BID:
            yield from ask_clients(grid, self.roster, record, kind, to_ask, Bid, self.options.ask_timeout)
            return
        asked = ask_clients(grid, self.roster, record, kind, to_ask, ParticipationReply, self.options.ask_timeout)
        for client, answer in chain(early.items(), asked):
            if answer.takes_part:
                self._note_decision(client, replace(answer, sleeps=None))  # it waits for the model
            else:
                self._note_decision(client, answer)
                decline(record, client, answer)
            yield client, answer

    def _losses(
        self, requests: Mapping[int, ParticipationRequest], arrays: ArrayRecord, grid: Grid
    ) -> Iterator[tuple[int, float]]:
        """Have clients evaluate the round's model, and yield the losses that they report."""
        nodes = {self.roster.node(client): request for client, request in requests.items()}
        drafts = self._aggregation.to_evaluate(self._record.round, arrays, ConfigRecord(), list(nodes), grid)
        messages = self._dispatch.messages(protocol.EVALUATE, drafts, nodes)
        losses: dict[int, float] = {}

        def leave_out(client: int, outcome: str, reason: str) -> None:
            drop(self._record, Participation(client, self.roster.name(client), outcome, reason=reason))

        def take(client: int, reply: Message) -> bool:
            try:
                check_metrics(reply, self.options.weighted_by_key)
                metrics = metrics_of(reply.content, self.options.weighted_by_key)
                loss = None if metrics is None else evaluation_loss(metrics, self.options.loss_metric)
                if loss is None or not is_bounded(loss):
                    raise Refused("its evaluation tells no loss" if loss is None else f"its loss is {loss}")
            except Refused as reason:
                leave_out(client, "failed" if reply.has_error() else "refused", str(reason))
                return False
            losses[client] = loss
            return True

        timeout = self.options.evaluate_timeout
        replies = self._send(grid, messages, self.options.ask_timeout if timeout is None else timeout, sequential=False)
        for client in self._take(replies, take):
            leave_out(client, "late", "no evaluation by the deadline")
        self._record.asked += len(nodes)
        yield from losses.items()

    def _note_decision(self, client: int, answer: ParticipationReply | None) -> None:
        self.roster.note_decision(client, answer, self._record.round, self._round_duration)

    def _may_try_again(self, arrays: ArrayRecord | None) -> bool:
        """Tell whether every client has declined the model, so that the policy may select another one."""
        return arrays is None and self._record.willing == 0 and self._plan.undecided

    def _train_messages(self, plan: Plan, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> list[Message]:
        self._step_begun = time.monotonic()
        plan, round_ = self._weigh(plan, arrays), self._record.round
        extra = {} if self._configure is None else self._configure(round_)
        config = ConfigRecord({**config, "server-round": round_, **extra})
        nodes = [self.roster.node(client) for client in plan.clients.tolist()]
        drafts = self._aggregation.to_train(round_, arrays, config, nodes, grid)
        refresh = [False] * len(nodes) if plan.refresh is None else plan.refresh.tolist()
        base, compression = self._ask(round_), self.options.compression
        plain, coded = self._plain(base), None if compression == NONE else compression
        asks = [
            replace(
                self.policy.request_for(base, client, "train") or plain,
                compression=coded,
                forced=plan.forced,
                refresh=flag,
            )
            for client, flag in zip(plan.clients.tolist(), refresh, strict=True)
        ]
        terms = dict(zip(nodes, asks, strict=True))
        self._sent = self._clock.now()
        asleep = np.flatnonzero(self.roster.asleep(round_)).tolist()
        return self._dispatch.messages(protocol.TRAIN, drafts, terms, asleep=asleep)

    def _weigh(self, plan: Plan, arrays: ArrayRecord) -> Plan:
        """Make a plan the round's, with the weights ω that its updates will have."""
        sizes = self.roster.sizes
        own = sizes[plan.clients] if self.policy.traits.own_weights == "size" else plan.weights
        if self.weights == weighting.UNBIASED:
            sizes = self.roster.sizes_of_all("weights 'unbiased'", or_equal=True).astype(np.float64)
            sizes = sizes if plan.members is None else np.where(plan.members, sizes, 0.0)
        weights = weighting.omega(self.weights, plan.clients, own, sizes, plan.rates)
        self._plan, self._model, self._planned = replace(plan, weights=weights), arrays, self._record.round
        return self._plan

    def _send(self, grid: Grid, messages: Iterable[Message], timeout: float, *, sequential: bool) -> Exchange:
        ordered = sequential and self.options.deterministic
        enough, late = (self.options.enough, self.options.late_rounds) if sequential else (None, 0)
        keep = late * timeout if late else None  # a round takes no longer, but for its question
        seed, round_, clients = self.options.seed, self._record.round, len(self.roster)
        lots = None if enough is None else draws.uniforms(seed, round_, FIRST, clients)
        return self._dispatch.send(
            grid, messages, timeout, sequential=sequential, ordered=ordered, enough=enough, keep=keep, lots=lots
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
