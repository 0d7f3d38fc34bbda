"""The training of a round: the policy selects clients, they get the model, and their updates arrive."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid

from aoi_fl import protocol
from aoi_fl.config.values import names_of
from aoi_fl.protocol import ParticipationRequest
from aoi_fl.protocol.clock import FIRST
from aoi_fl.protocol.coding import NONE
from aoi_fl.protocol.measures import training_loss_name
from aoi_fl.protocol.own_code import brief, call_own
from aoi_fl.protocol.records import Participation
from aoi_fl.science import draws
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.weighting import weigh
from aoi_fl.strategies import weighting
from aoi_fl.strategies.aggregation.base import Draft, Intake
from aoi_fl.strategies.aggregation.mean import Mean
from aoi_fl.strategies.aggregation.private import ByPrivateMean
from aoi_fl.strategies.guarded import name_of
from aoi_fl.strategies.policy import Plan, RoundView
from aoi_fl.strategies.round.collection import Collector
from aoi_fl.strategies.round.current import Round
from aoi_fl.strategies.round.dispatch import Dispatch
from aoi_fl.strategies.round.exchange import Exchange
from aoi_fl.strategies.round.questions import Questions
from aoi_fl.strategies.round.run import Run


class TrainingStep:
    """Selects the clients of each round, and collects their updates.

    Parameters
    ----------
    run, dispatch : the run, and its messages
    weights, configure : as in :class:`aoi_fl.strategies.strategy.AgeAwareStrategy`
    """

    def __init__(
        self,
        run: Run,
        dispatch: Dispatch,
        weights: str,
        configure: Callable[[int], dict[str, Any]] | None,
    ) -> None:
        self._run, self._dispatch = run, dispatch
        self._weights, self._configure = weights, configure
        self._questions = Questions(run, dispatch)

    def select(self, arrays: ArrayRecord, grid: Grid, *, second_attempt: bool = False) -> Plan:
        """Have the policy select clients.

        Parameters
        ----------
        arrays, grid : the round's model, and the grid on which the policy may ask clients
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
            round_.recorder.record,
            run.population,
            lambda kind, requests: self._questions.ask(kind, requests, arrays, grid),
            run.request(round_.number),
            seed=run.options.seed,
            first=run.joining is not None and round_.number == run.joining.first,
            second_attempt=second_attempt,
            may_force=run.privacy is None and not (run.options.buffer and len(run.at_work)),
            places=run.places,
            volunteer_error=run.options.volunteer_error,
        )
        plan = policy.plan(view)
        if not isinstance(plan, Plan):
            allowed = f"a function that returns a Plan, and it returned {brief(plan)}"
            raise ConfigError(f"{kind}.plan", None, allowed, "Return an aoi_fl.strategies.Plan.")
        plan = plan.checked(kind, len(run.roster))
        if plan.forced and run.privacy is not None:
            allowed = "false in a private run, which forces no client"
            raise ConfigError(f"forced of {kind}.plan", True, allowed, "Return a plan without clients.")
        if second_attempt and not len(plan.clients):
            return plan
        if run.places is not None and len(plan.clients) > run.places:
            plan = self._first_drawn(plan, run.places)
        if run.options.must_include:
            plan = self._with_named(plan)
        for client, reason in plan.refused.items():
            round_.recorder.drop(Participation(client, run.roster.name(client), "refused", reason=reason))
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

    def messages(self, plan: Plan, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> list[Message]:
        """Return the messages that carry the model to the clients of a plan."""
        run, round_ = self._run, self._run.round
        round_.step_begun = time.monotonic()
        for former in run.at_work.interrupted():
            if run.clock.simulated is None:  # else the clients go on; here the time is that of a process that has ended
                former.sent = run.clock.now()
            former.model = ArrayRecord({name: former.model[name] for name in arrays})
            messages = self._dispatch.by_client(self._dispatch.write(*self._written(former, config, grid)))
            run.at_work.send_again(self._collector(former, run.aggregation, unit=1.0), messages)
        self.weigh(plan, arrays)
        drafts, requests = self._written(round_, config, grid)
        drafts = drafts if self._released is None else {}
        round_.sent = run.clock.now()
        self._dispatch.begin(protocol.TRAIN, np.flatnonzero(run.roster.asleep(round_.number)).tolist())
        return self._dispatch.write(drafts, requests)

    def _written(
        self, round_: Round, config: ConfigRecord, grid: Grid
    ) -> tuple[Mapping[int, Draft], dict[int, ParticipationRequest]]:
        """Return what each node of a round's plan is sent: the aggregation's content, and our record."""
        run, plan, number = self._run, round_.plan, round_.number
        config = ConfigRecord({**config, "server-round": number})
        if self._configure is not None:
            wanted = "a function of the round that returns a dict of values for a ConfigRecord"
            config.update(call_own("configure", self._configure, number, made=ConfigRecord, wanted=wanted))
        clients = plan.clients.tolist()
        nodes = [run.roster.node(client) for client in clients]
        drafts = run.aggregation.drafts(protocol.TRAIN, number, round_.model, config, nodes, grid)
        refresh = [False] * len(nodes) if plan.refresh is None else plan.refresh.tolist()
        compression = None if run.options.compression == NONE else run.options.compression
        base, plain = run.request(number), run.plain(number)
        requests = {
            node: replace(
                run.policy.request_for(base, client, "train") or plain,
                compression=compression,
                forced=plan.forced,
                refresh=renews,
            )
            for node, client, renews in zip(nodes, clients, refresh, strict=True)
        }
        return drafts, requests

    def weigh(self, plan: Plan, arrays: ArrayRecord) -> None:
        """Make a plan the round's, with the weights ω of its updates."""
        run, sizes = self._run, self._run.roster.sizes
        match self._weights:
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

    def collect(self, replies: Iterable[Message], intake: Intake, number: int) -> tuple[Collector, float]:
        """Hand the updates of a round on; return the collector, and the seconds of adding before.

        Raises
        ------
        ConfigError
            No round has begun.
        """
        run, round_ = self._run, self._run.round
        if run.joining is None:
            begun = f"one that {run.strategy}.start has begun"
            raise ConfigError("round", number, begun, f"Call {run.strategy}.start.")
        recorder = round_.recorder
        again = run.resume is not None and number == run.joining.first
        collector = self._collector(round_, intake, again=again, origins=run.at_work.origins)
        before = recorder.record.aggregate_seconds or 0.0
        round_.begin_collection()

        def take(client: int, reply: Message) -> bool:
            with recorder.timed("aggregate"):
                return collector.take(client, reply)

        def keep(exchange: Exchange, silent: set[int]) -> Collection[int]:
            return run.at_work.keep(exchange, collector, silent)

        for client in self._dispatch.take(replies, take, keep):
            collector.drop(client, "late", self._dispatch.why_missing, self._dispatch.message_id(client))
        if self._released is not None:
            collector.replay(self._released)
        return collector, before

    def _collector(self, round_: Round, intake: Intake, **how: Any) -> Collector:
        run = self._run
        return Collector(
            round_,
            intake,
            self._weights == weighting.UNBIASED,
            run.roster,
            run.options,
            run.clock,
            round_duration=run.round_duration,
            separation=run.separation,
            **how,
        )

    @property
    def _released(self) -> Mapping[str, Any] | None:
        """The training of a private round that a break has not let into the ledger; simulated clients train again."""
        run, aggregation = self._run, self._run.aggregation
        if isinstance(aggregation, ByPrivateMean) and run.clock.simulated is None:
            return aggregation.released(run.round.number)
        return None

    def add_late(self, collector: Collector, used: bool = True) -> list[int]:
        """Add the updates of earlier rounds that have arrived by now; return the clients."""
        run = self._run
        works = run.at_work.come()
        if works:
            collector.add_late(run.aggregation if used and isinstance(run.aggregation, Mean) else None, works)
        return [work.client for work in works]

    def conclude(
        self, make: Callable[[], tuple[ArrayRecord | None, MetricRecord | None]], before: float
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Have the model made, and complete the training's record; ``before`` as :meth:`collect` returned it."""
        run, recorder = self._run, self._run.round.recorder
        with recorder.timed("aggregate"):
            arrays, metrics = make()
        aggregated = (recorder.record.aggregate_seconds or 0.0) - before
        recorder.add_seconds("train", time.monotonic() - run.round.step_begun - aggregated)
        # A private round makes a model of noise alone too, so that an empty one cannot be told.
        used = arrays is not None and (run.privacy is None or recorder.record.trained > 0)
        run.progress.trained |= used
        recorder.record.empty = not used
        if metrics is not None:
            recorder.note("train", metrics, training_loss_name(metrics))
        if not run.round.may_try_again(arrays):
            run.observe()
        return arrays, metrics
