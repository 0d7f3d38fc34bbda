"""The training of a round: the policy selects clients, they get the model, and their updates arrive."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message

from aoi_fl import protocol
from aoi_fl.config.values import names_of
from aoi_fl.protocol.clock import FIRST
from aoi_fl.protocol.log import logger
from aoi_fl.protocol.measures import TRAINING, measured_name
from aoi_fl.protocol.own_code import brief, call_own
from aoi_fl.science import draws
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.weighting import weigh
from aoi_fl.strategies.aggregation.base import MODEL_STAYS, NewModel, called, flaw, log_failure
from aoi_fl.strategies.aggregation.flower import in_types_of
from aoi_fl.strategies.aggregation.mean import Mean
from aoi_fl.strategies.aggregation.metrics import model_and_metrics
from aoi_fl.strategies.guarded import name_of
from aoi_fl.strategies.policy import Plan, RoundView
from aoi_fl.strategies.round import retry
from aoi_fl.strategies.round.collection import Collector
from aoi_fl.strategies.round.current import Round
from aoi_fl.strategies.round.dispatch import Dispatch
from aoi_fl.strategies.round.questions import ask
from aoi_fl.strategies.round.run import StrategyRun
from aoi_fl.strategies.validation import Refused

TrainStep: TypeAlias = Callable[..., NewModel]


class TrainingStep:
    """Selects the clients of each round, and collects their updates.

    Parameters
    ----------
    run : the run
    configure : as in :class:`aoi_fl.strategies.strategy.AgeAwareStrategy`
    """

    def __init__(self, run: StrategyRun, configure: Callable[[int], dict[str, Any]] | None) -> None:
        self._run, self._dispatch, self._configure = run, Dispatch(run), configure
        self._held: Collector | None = None  # while a step of a subclass has its updates
        self._used: set[int] | None = None  # the clients whose updates came back for the aggregation; None: unknown

    def select(self, arrays: ArrayRecord, *, second_attempt: bool = False) -> Plan:
        """Have the policy select clients.

        Parameters
        ----------
        arrays : the round's model, which the policy may have clients evaluate
        second_attempt : whether every client of a first plan declined

        Raises
        ------
        ConfigError
            The plan cannot be carried out.
        """
        run, policy, round_ = self._run, self._run.policy, self._run.round
        traits, kind = policy.traits, name_of(policy)
        if traits.sizes != "unused":
            run.roster.sizes_of_all(or_equal=traits.sizes == "optional")
        view = RoundView(
            run.roster,
            round_.record,
            run.population,
            lambda kind, requests: ask(run, self._dispatch, kind, requests, arrays),
            run.request(round_.number),
            seed=run.options.seed,
            first=round_.number == run.first,
            second_attempt=second_attempt,
            may_force=run.private is None and not (run.options.buffer and len(run.at_work)),
            places=run.places,
            volunteer_error=run.options.volunteer_error,
        )
        plan = policy.plan(view)
        if not isinstance(plan, Plan):
            allowed = f"a function that returns a Plan, and it returned {brief(plan)}"
            raise ConfigError(f"{kind}.plan", None, allowed, "Return an aoi_fl.strategies.Plan.")
        plan = plan.checked(kind, len(run.roster))
        if plan.forced and run.private is not None:
            allowed = "false in a private run, which forces no client"
            raise ConfigError(f"forced of {kind}.plan", True, allowed, "Return a plan without clients.")
        if second_attempt and not len(plan.clients):
            return plan
        if run.places is not None and len(plan.clients) > run.places:
            plan = self._first_drawn(plan, run.places)
        if run.options.must_include:
            plan = self._with_named(plan)
        for client, reason in plan.refused.items():
            run.drop(client, "refused", reason)
        round_.plan_by(view, plan, kind)
        return plan

    def _first_drawn(self, plan: Plan, places: int) -> Plan:
        """Keep as many clients, drawn at random, as places are free, of a policy that does not go by these."""
        lots = draws.uniforms(self._run.options.seed, self._run.round.number, FIRST, len(self._run.roster))
        kept = np.sort(np.argsort(lots[plan.clients])[:places])
        refresh = None if plan.refresh is None else plan.refresh[kept]
        return replace(plan, clients=plan.clients[kept], weights=plan.weights[kept], refresh=refresh)

    def _with_named(self, plan: Plan) -> Plan:
        """Add the available clients that each round must include, with the mean weight of the others."""
        here, chosen = self._run.roster.available_but(()), set(plan.clients.tolist())
        named = self._run.roster.named(names_of("must-include", self._run.options.must_include))
        more = [client for client in named if here[client] and client not in chosen]
        weights = np.full(len(more), plan.weights.mean() if len(plan.weights) else 1.0)
        clients = np.append(plan.clients, np.array(more, np.int64))
        return replace(plan, clients=clients, weights=np.append(plan.weights, weights))

    def messages(self, plan: Plan, arrays: ArrayRecord, config: ConfigRecord) -> list[Message]:
        """Return the messages that carry the model to the clients of a plan."""
        run, round_ = self._run, self._run.round
        round_.step_begun = time.monotonic()
        for former in run.at_work.interrupted():
            if run.clock.simulated is None:  # else the clients go on; here the time is that of a process that has ended
                former.sent = run.clock.now()
            former.model = ArrayRecord({name: former.model[name] for name in arrays})
            messages = self._dispatch.by_client(self._written(former, config))
            run.at_work.send_again(Collector(run, former, origins={}, unit=1.0), messages)
        self.weigh(plan, arrays)
        written = self._written(round_, config)
        round_.sent = run.clock.now()
        return written if self._released is None else []

    def _written(self, round_: Round, config: ConfigRecord) -> list[Message]:
        """Return the messages to the clients of a round's plan: the aggregation's content, and our record."""
        run, plan, number = self._run, round_.plan, round_.number
        config = ConfigRecord({**config, "server-round": number})
        if self._configure is not None:
            wanted = "a function of the round that returns a dict of values for a ConfigRecord"
            config.update(call_own("configure", self._configure, number, made=ConfigRecord, wanted=wanted))
        refresh = np.zeros(len(plan.clients), np.bool_) if plan.refresh is None else plan.refresh
        base = run.request(number)
        plain = base.untimed()
        requests = {
            client: replace(
                run.policy.request_for(base, client, "train") or plain,
                compression=run.options.code,
                forced=plan.forced,
                refresh=renews,
            )
            for client, renews in zip(plan.clients.tolist(), refresh.tolist(), strict=True)
        }
        return self._dispatch.write(protocol.TRAIN, requests, number, round_.model, config)

    def weigh(self, plan: Plan, arrays: ArrayRecord) -> None:
        """Make a plan the round's, with the weights ω of its updates."""
        run, sizes = self._run, self._run.roster.sizes
        match run.weights:
            case "equal":
                weights = np.ones(len(plan.clients))
            case "unbiased":
                sizes = run.roster.sizes_of_all(or_equal=True).astype(np.float64)
                sizes = sizes if plan.members is None else np.where(plan.members, sizes, 0.0)
                weights = weigh("unbiased", plan.clients, sizes, plan.rates)
            case own:
                by_size = "size" in (own, run.policy.traits.own_weights)
                weights = sizes[plan.clients] if by_size else plan.weights
        run.round.plan, run.round.model, run.round.planned = replace(plan, weights=weights), arrays, True

    def adopt(self, number: int, arrays: ArrayRecord, messages: Sequence[Message]) -> None:
        """Take up a round with clients that ``configure_train`` of a subclass chose without ``super()``."""
        run = self._run
        if run.options.buffer:
            allowed = f"0 with a configure_train of {run.strategy} that does not call super()"
            raise ConfigError("buffer", run.options.buffer, allowed, "Call super().configure_train.")
        run.open(number)
        clients = np.array(sorted(self._dispatch.by_client(messages)), np.int64)
        run.warn_once(
            "configure_train",
            f"configure_train of {run.strategy} chooses the clients without super(): the policy is not asked, and "
            "clients decide nothing. To keep the policy, call super().configure_train.",
        )
        run.round.record.willing = len(clients)
        self.weigh(Plan(clients, np.full(len(clients), np.nan)), arrays)
        run.round.step_begun, run.round.sent = time.monotonic(), run.clock.now()

    def conclude(self, messages: list[Message], timeout: float, step: TrainStep | None) -> NewModel:
        """Send the model, collect the updates, have a model made of them, and complete the training's record.

        ``step`` makes the model of the updates, if a subclass overrides ours.
        """
        run, round_ = self._run, self._run.round
        self._dispatch.send(retry.TRAINING, messages, timeout)
        collector = Collector(run, round_, origins=run.at_work.origins, for_step=step is not None)
        before = round_.record.aggregate_seconds or 0.0
        round_.begin_collection()
        for client in self._dispatch.take(round_.timed("aggregate")(collector.take), collector):
            collector.drop(client, "late", self._dispatch.why_missing, self._dispatch.sent[client].metadata.message_id)
        if self._released is not None:
            collector.replay(self._released)
        with round_.timed("aggregate"):
            if step is None:
                self._add_late(collector)
                arrays, metrics = collector.finish()
            else:
                arrays, metrics = self._made_by(step, collector)
        aggregated = (round_.record.aggregate_seconds or 0.0) - before
        round_.add_seconds("train", time.monotonic() - round_.step_begun - aggregated)
        # A private round makes a model of noise alone too, so that an empty one cannot be told.
        used = arrays is not None and (run.private is None or round_.record.trained > 0)
        run.progress.trained |= used
        round_.record.empty = not used
        if metrics is not None:
            round_.note("train", metrics, measured_name(metrics, TRAINING))
        return arrays, metrics

    @property
    def _released(self) -> Mapping[str, Any] | None:
        """The training of a private round that a break has not let into the ledger; simulated clients train again."""
        run = self._run
        if run.private is None or run.clock.simulated is not None:
            return None
        return run.private.released(run.round.number)

    def _add_late(self, collector: Collector, used: bool = True) -> list[int]:
        """Add the updates of earlier rounds that have arrived by now; return the clients."""
        run = self._run
        works = run.at_work.come()
        if works:
            collector.add_late(run.aggregation if used and isinstance(run.aggregation, Mean) else None, works)
        return [work.client for work in works]

    def _made_by(self, step: TrainStep, collector: Collector) -> NewModel:
        """Return what a step of a subclass makes of the accepted updates."""
        run, number, model = self._run, self._run.round.number, self._run.round.model
        self._held, self._used = collector, None
        replies = [collector.held[client][0] for client in sorted(collector.held)]
        arrays, metrics = None, None
        try:
            arrays, metrics = run.call_step("aggregate_train", step, number, replies, made=model_and_metrics)
        except Exception as error:  # over what a client has sent
            log_failure(number, MODEL_STAYS, called(collector.held), error)
        finally:
            self._held = None
        self._add_late(collector, self._used is not None)
        if self._used is not None:
            collector.refuse(run.aggregation.spoiled)
        collector.complete(self._used)
        if replies and self._used is None:
            run.warn_once(
                "aggregate_train",
                f"aggregate_train of {run.strategy} makes the model without super(): the clients that took part are "
                "recorded, but their weights are not known.",
            )
        if arrays is not None and (why := flaw(arrays, model)):
            log_failure(number, MODEL_STAYS, called(collector.held), why)
            arrays = None
        return None if arrays is None else in_types_of(model, arrays), metrics

    def aggregate(self, number: int, replies: Iterable[Message]) -> NewModel:
        """Aggregate the accepted updates that a subclass hands on, perhaps changed.

        Raises
        ------
        ConfigError
            No step of a subclass has updates.
        """
        run, aggregation, model = self._run, self._run.aggregation, self._run.round.model
        if self._held is None:
            begun = f"one that {run.strategy}.start has begun"
            raise ConfigError("round", number, begun, f"Call {run.strategy}.start.")
        collector, used = self._held, self._used or set()
        client_of = {reply.metadata.reply_to_message_id: client for client, (reply, _) in collector.held.items()}
        self._used = used
        aggregation.begin(run.round.number, model)
        for reply in replies:
            client = client_of.get(reply.metadata.reply_to_message_id)
            if client is None:
                continue
            try:
                update = collector.read(reply, aggregation.opaque)
            except Refused as reason:
                changed = f"what {run.strategy} made of the update of {run.roster.name(client)}"
                logger.warning("Round %d: %s is not used: %s", run.round.number, changed, reason)
                continue
            try:
                aggregation.add(client, reply, update, collector.weights[client])
            except Refused as reason:
                collector.refuse({client: str(reason)})
                continue
            used.add(client)
        used.update(self._add_late(collector))
        return aggregation.finish()
