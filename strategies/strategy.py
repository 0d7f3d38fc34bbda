"""The strategy: a Flower strategy that runs the rounds of a policy.

A :class:`aoi_fl.strategies.policy.Policy` selects the clients of a round and their weights. The aggregation makes a
model of their updates: our own mean, or any Flower strategy. The parts of a round are in
:mod:`aoi_fl.strategies.round`.

:meth:`AgeAwareStrategy.start` runs all rounds, by the steps ``configure_train``, ``aggregate_train``,
``configure_evaluate`` and ``aggregate_evaluate``. A subclass may override each of these steps. Another loop is refused.
"""

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from aoi_fl.config.rules import check, opposed_bound
from aoi_fl.protocol.log import logger
from aoi_fl.protocol.records import Log, Observer, RunObserver, shown
from aoi_fl.science.errors import ConfigError
from aoi_fl.strategies import weighting
from aoi_fl.strategies.aggregation.flower import is_opaque
from aoi_fl.strategies.aggregation.making import make_aggregation
from aoi_fl.strategies.aggregation.metrics import messages_of
from aoi_fl.strategies.aggregation.private import ByPrivateMean, PrivateMean
from aoi_fl.strategies.fedavg_arguments import judging, with_arguments
from aoi_fl.strategies.guarded import Guarded, guarded
from aoi_fl.strategies.plan import Resume, RoundOptions
from aoi_fl.strategies.policy import Policy
from aoi_fl.strategies.round.evaluation import EvaluationStep
from aoi_fl.strategies.round.run import StrategyRun
from aoi_fl.strategies.round.training import TrainingStep
from aoi_fl.strategies.selection.rule import RulePolicy
from aoi_fl.strategies.validation import warn_of_first_model


class AgeAwareStrategy(Strategy):
    """Runs the rounds of a policy.

    Parameters
    ----------
    policy : decides which clients take part
    aggregation : a Flower strategy that makes a model of the updates; None: our own weighted mean; or a
        :class:`aoi_fl.strategies.aggregation.private.PrivateMean`
    weights : ω, see :mod:`aoi_fl.strategies.weighting`
    options : how a round runs
    observer : receives new clients and finished rounds
    configure : extra entries of the training configuration, as a function of the round (a learning rate that decays)
    resume : state of an interrupted run
    as_fedavg : keyword arguments of Flower's FedAvg, see :mod:`aoi_fl.strategies.fedavg_arguments`

    Attributes
    ----------
    stopped : why the run ended before its last round and can be resumed; None otherwise
    complete : why the run was complete before its last round; None otherwise
    """

    def __init__(
        self,
        policy: Policy,
        *,
        aggregation: Strategy | PrivateMean | None = None,
        weights: str = weighting.AUTO,
        options: RoundOptions | None = None,
        observer: Observer | None = None,
        configure: Callable[[int], dict[str, Any]] | None = None,
        resume: Resume | None = None,
        **as_fedavg: Any,
    ) -> None:
        options = with_arguments(type(self).__name__, options or RoundOptions(), as_fedavg)
        if isinstance(aggregation, AgeAwareStrategy):
            allowed = "a strategy of flwr.serverapp.strategy, not a policy of selection"
            remedy = "Choose such a strategy, or none for the weighted mean."
            raise ConfigError("aggregation", type(aggregation).__name__, allowed, remedy)
        policy = guarded(policy)
        if self._own_step("aggregate_train") and (
            options.min_updates or options.must_include or options.max_weight < 1
        ):
            allowed = "left out with an aggregate_train of your own, as max-weight and must-include are"
            raise ConfigError("min_updates", options.min_updates, allowed, "Check the quorum in your aggregate_train.")
        needs = policy.traits.clients_needed if options.min_clients is None else options.min_clients
        made, weights, options = make_aggregation(
            policy, aggregation, weights, options, clients=needs, resumed=resume is not None
        )
        _check_buffer(policy, options, needs)
        alike = isinstance(policy, RulePolicy) and policy.traits.law is not None
        check(opposed_bound(options.volunteer_error, alike, options.late_rounds, options.buffer))
        self.weights = weights
        self._run = run = StrategyRun(
            policy, options, made, weights, observer or Log(), resume, needs, type(self).__name__
        )
        self._training, self._evaluation = TrainingStep(run, configure), EvaluationStep(run)
        self.stopped: str | None = None
        self.complete: str | None = None

    @property
    def policy(self) -> Policy:
        """The policy."""
        policy = self._run.policy
        return policy.made if isinstance(policy, Guarded) else policy

    @property
    def options(self) -> RoundOptions:
        """How rounds are run."""
        return self._run.options

    @property
    def observer(self) -> Observer:
        """Receives clients and finished rounds."""
        return self._run.observer

    @observer.setter
    def observer(self, observer: Observer) -> None:
        self._run.observer = observer

    @property
    def ending(self) -> bool:
        """Whether the round at hand, after its training, is the last: by its number, by time, or by a budget."""
        run, number = self._run, self._run.round.number
        return number == run.last or run.time_is_up or run.over(number + 1) is not None

    def _promise_privacy(self, private: ByPrivateMean, rounds: int, model: ArrayRecord) -> None:
        """Check the terms of a private run, and fix its noise."""
        self._check_step()
        run, spec = self._run, private.spec
        if rounds != spec.rounds:
            allowed = f"{spec.rounds}, for which the noise is made"
            raise ConfigError("rounds", rounds, allowed, "Fix the rounds before the run starts.")
        k = run.policy.describe().get("per_round")
        if k is not None and spec.per_round not in (k, run.options.enough):
            allowed = f"{k}, the number of clients that the policy selects"
            raise ConfigError("per-round", spec.per_round, allowed, f"Set per_round of the PrivateMean to {k}.")
        if (why := private.over(1)) is not None:
            remedy = "Raise noise-multiplier or max-epsilon."
            raise ConfigError("max-epsilon", spec.max_epsilon, f"larger: {why}", remedy)
        if private.over(run.first) is None:
            private.promise(model, run.needs, run.first - 1)

    def _check_step(self) -> None:
        """Refuse an aggregation step in the place of a private run's, which could bypass clipping and noise."""
        if self._own_step("aggregate_train"):
            allowed = "left out of a private run, because it could bypass clipping and noise"
            raise ConfigError(f"aggregate_train of {type(self).__name__}", None, allowed, "Leave it out.")

    def _own_step(self, name: str) -> Callable[..., Any] | None:
        """Return a step that a subclass overrides, or that was assigned; None: it is ours."""
        step: Callable[..., Any] = getattr(self, name)
        ours = getattr(step, "__func__", None) is getattr(AgeAwareStrategy, name)
        return None if ours and getattr(step, "__self__", None) is self else step

    def parameters(self) -> dict[str, Any]:
        """Return the policy's parameters, for the ledger."""
        return self._run.policy.describe()

    def finish(self, reason: str) -> None:
        """End the run after the round at hand, as complete; ``reason`` says why."""
        self._run.complete = reason

    def summary(self) -> None:
        """Log the policy's parameters, and what the aggregation has to say."""
        about = dict(self.parameters())
        kind = about.pop("kind", type(self).__name__)
        stated = ((key, value) for key, value in about.items() if value not in (False, "ignored"))  # off by default
        parts = [f"{key.replace('_', ' ')} {shown(value)}" for key, value in stated]
        logger.info("policy %s: %s", kind, ", ".join(parts))
        if warning := self._run.policy.traits.warning:
            logger.warning(warning)
        self._run.aggregation.summary()

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float | None = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> "RunResult":
        """Run the rounds, once; the signature is that of :meth:`flwr.serverapp.strategy.Strategy.start`.

        Raises
        ------
        ConfigError
            This strategy has already been used.
        NodesError
            There are too few clients for a new run.
        NothingTrainedError
            Not one update of the run could be used.
        """
        with self._observed(num_rounds):
            run = self._run
            if not isinstance(initial_arrays, ArrayRecord):
                remedy = "Give for instance ArrayRecord(model.state_dict())."
                raise ConfigError("initial_arrays", initial_arrays, "an ArrayRecord", remedy)
            judge = None if evaluate_fn is None else judging(evaluate_fn)
            if run.private is not None:
                self._promise_privacy(run.private, num_rounds, initial_arrays)
            self.summary()
            if run.last:
                allowed = "a new one: this one has been used for a run already"
                raise ConfigError("strategy", type(self).__name__, allowed, "Create a new one for each run.")
            result = RunResult()
            arrays = result.arrays = initial_arrays
            # One of each for all rounds, as in Flower: a subclass may change it from round to round.
            train_config = ConfigRecord() if train_config is None else train_config
            evaluate_config = ConfigRecord() if evaluate_config is None else evaluate_config
            timeout = math.inf if timeout is None else timeout
            first, run.last = run.first, num_rounds
            if run.resume is not None:
                run.served.load_state_dict(run.resume.memory)
                result.arrays = run.served.current(arrays)
            if self.options.buffer and is_opaque(arrays):
                allowed = "0 with a model of bytes, because two of them have no difference"
                raise ConfigError("buffer", self.options.buffer, allowed, "Leave it out.")
            if first <= num_rounds:
                warn_of_first_model(arrays)
                run.join(grid)
            if judge and first == 1 and (metrics := judge(0, arrays)) is not None:
                result.evaluate_metrics_serverapp[0] = metrics
            for round_ in range(first, num_rounds + 1):
                if run.time_is_up:  # of a run that was broken off between its last round and its end
                    break
                self.complete = run.over(round_)
                if self.complete:
                    logger.info("The run is complete after round %d: %s.", round_ - 1, self.complete)
                    break
                arrays, train_metrics = self._train(round_, arrays, train_config, timeout)
                if train_metrics is not None:
                    result.train_metrics_clientapp[round_] = train_metrics
                served = run.served.add(arrays)
                if (client_metrics := self._evaluate(round_, served, evaluate_config, timeout)) is not None:
                    result.evaluate_metrics_clientapp[round_] = client_metrics
                if judge:
                    with run.round.timed("test"):
                        metrics = judge(round_, served)
                    if metrics is not None:
                        result.evaluate_metrics_serverapp[round_] = metrics
                        run.evaluate("test", metrics)
                result.arrays = served
                run.close(arrays)
                idle = run.progress.idle
                if idle and idle == self.options.max_empty_rounds and round_ < num_rounds:
                    self.stopped = f"no usable update arrived in {idle} rounds in a row (max-empty-rounds)"
                    logger.warning("The run stops after round %d: %s.", round_, self.stopped)
                    break
            if first <= num_rounds:
                run.check_trained()
            if run.private is not None:
                result.epsilon = run.private.epsilon(max(run.round.number, first - 1))
                if not self.stopped:
                    run.private.complete()
            if isinstance(self.observer, Log | RunObserver):  # of an app of one's own
                logger.info("Final results:\n%s", result)
            return result

    @contextmanager
    def _observed(self, rounds: int) -> Iterator[None]:
        """Tell an observer that wants to know when the run begins and how it ends."""
        observer = self.observer if isinstance(self.observer, RunObserver) else None
        if observer is None:
            yield
            return
        observer.run_begins(self.parameters(), rounds)
        try:
            yield
        except BaseException as error:
            observer.run_ends(None, error)
            raise
        observer.run_ends(self.stopped, None)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Begin a round: call the roll, select clients, and return the messages that carry the model to them."""
        run = self._run
        if not run.last:
            raise _other_loop(type(self).__name__, sys._getframe(1).f_code.co_qualname)
        run.open(server_round)
        with run.round.timed("ask"):
            run.wait_for_start()
            plan = self._training.select(arrays)
        return self._training.messages(plan, arrays, config)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Aggregate the accepted updates that a subclass hands on, perhaps changed.

        Raises
        ------
        ConfigError
            Another loop calls this step.
        """
        return self._training.aggregate(server_round, replies)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Return evaluation messages for some of the clients, drawn at random."""
        self._run.open(server_round)
        return self._evaluation.messages(arrays, config)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Aggregate the accepted evaluations that a subclass hands on."""
        return self._run.aggregation.evaluated(server_round, list(replies))

    def initialize_parameters(self, client_manager: object = None) -> None:
        """Refuse to be driven by ``ServerAppComponents``, which call this first; always raises ConfigError."""
        allowed = "one started by Flower's present interface, not by ServerAppComponents, server_fn or start_server"
        remedy = "Register a function of (grid, context) with @app.main(), and call strategy.start in it."
        raise ConfigError("strategy", type(self).__name__, allowed, remedy)

    def _train(
        self, round_: int, arrays: ArrayRecord, config: ConfigRecord, timeout: float
    ) -> tuple[ArrayRecord, MetricRecord | None]:
        run = self._run
        timeout = timeout if self.options.train_timeout is None else self.options.train_timeout
        if run.private is not None:
            self._check_step()
        step = self._own_step("aggregate_train")
        messages = run.call_step(
            "configure_train", self.configure_train, round_, arrays, config, run.grid, made=messages_of
        )
        if run.round.number != round_ or not run.round.planned:
            self._training.adopt(round_, arrays, messages)
        if not messages and not self.options.buffer:
            run.at_work.wait(timeout)
        fresh, metrics = self._training.conclude(messages, timeout, step)
        if fresh is None and run.round.record.willing == 0 and run.round.plan.undecided:  # every client has declined
            plan = self._training.select(arrays, second_attempt=True)
            if len(plan.clients):
                messages = self._training.messages(plan, arrays, config)
                fresh, metrics = self._training.conclude(messages, timeout, step)
        run.observe()
        return (arrays if fresh is None else fresh), metrics

    def _evaluate(self, round_: int, arrays: ArrayRecord, config: ConfigRecord, timeout: float) -> MetricRecord | None:
        timeout = timeout if self.options.evaluate_timeout is None else self.options.evaluate_timeout
        run = self._run
        run.round.step_begun = time.monotonic()
        messages = run.call_step(
            "configure_evaluate", self.configure_evaluate, round_, arrays, config, run.grid, made=messages_of
        )
        return self._evaluation.conclude(messages, timeout, self._own_step("aggregate_evaluate"))


@dataclass(repr=False)  # Flower's has metrics and no arrays
class RunResult(Result):
    """Flower's result of a run, with the ε that a private run has spent; None: the run is not private."""

    epsilon: float | None = None


def _other_loop(strategy: str, caller: str) -> ConfigError:
    remedy = (
        f"Call {strategy}.start. For differential privacy give it aggregation=PrivateMean(...) in place of a wrapper; "
        "other steps may be overridden in a subclass."
    )
    return ConfigError("loop", caller, f"{strategy}.start, because it alone knows when a round is over", remedy)


def _check_buffer(policy: Policy, options: RoundOptions, needs: int) -> None:
    """Refuse a buffer that the clients at work, or those that exist, cannot fill."""
    buffer, selected = options.buffer, policy.describe().get("per_round")
    if not buffer:
        return
    if policy.traits.decides and selected != buffer:
        allowed = f"{buffer}, the buffer: where clients decide, as many begin with a model as end"
        raise ConfigError("per_round", selected, allowed, f"Set it to {buffer}, and at_work to the clients at work.")
    most = options.at_work if policy.traits.decides or options.at_work is not None else selected
    if most is None:
        allowed = "the number of clients at work, which does not follow from the policy"
        raise ConfigError("at_work", None, allowed, "Set it in the RoundOptions.")
    if buffer > min(most, needs):
        allowed = f"at most {min(most, needs)}, the clients at work or those that the run needs"
        raise ConfigError("buffer", buffer, allowed, "Lower it.")
