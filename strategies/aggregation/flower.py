"""Any Flower strategy as aggregation: it sees the chosen nodes, its own configuration in their messages, and ω.

Only Flower's public interface is used. The strategy is given a grid that lists the chosen nodes alone, so that sampling
"all of them" is what it does; its messages' contents go out with our record beside its own; and the accepted replies
are handed to it with the aggregation weight in the place of the metric that it weighs by. It holds what it holds: a
FedAvg all updates of the round at once.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy, deepcopy
from typing import Any, TypeAlias, TypeVar

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from aoi_fl import protocol
from aoi_fl.protocol.arrays import model_key, to_record
from aoi_fl.protocol.log import logger
from aoi_fl.protocol.own_code import call_own
from aoi_fl.protocol.records import State
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.types import AnyArray
from aoi_fl.strategies.aggregation import state
from aoi_fl.strategies.aggregation.base import (
    MODEL_STAYS,
    Draft,
    NewModel,
    averages,
    flaw,
    is_statistic,
    log_left_out,
    near_end,
    nodes_of,
    spoilers,
    together,
)
from aoi_fl.strategies.aggregation.mean import RunningMean, largest, oversized, without_rounding
from aoi_fl.strategies.aggregation.metrics import (
    alike,
    common,
    finite,
    messages_of,
    metrics_or_none,
    model_and_metrics,
    whole,
)
from aoi_fl.strategies.fedavg_arguments import chain_of
from aoi_fl.strategies.plan import RoundOptions
from aoi_fl.strategies.validation import Refused, Update, metrics_key, metrics_of, one_line, some_of

T = TypeVar("T")
R = TypeVar("R")
_Snapshot: TypeAlias = list[tuple[Strategy, dict[str, Any]]]  # each strategy of a chain, and its attributes

# What FedAvg and its kin choose nodes by, and what makes them take all that the grid lists.
_EVERYBODY = {
    "fraction_train": 1.0,
    "fraction_evaluate": 1.0,
    "min_train_nodes": 1,
    "min_evaluate_nodes": 1,
    "min_available_nodes": 1,
}
_MOMENTUM = 1e4  # how far the steps after a large one may add up to


class FlowerAggregation:
    """A Flower strategy that turns the accepted updates into a model.

    Parameters
    ----------
    strategy : any :class:`flwr.serverapp.strategy.Strategy` but a selection policy: FedAdam, Krum, FedXgbBagging, one
        of the differential-privacy wrappers round another, or one of your own
    options : names of records
    metrics : whether the strategy aggregates the clients' metrics

    Raises
    ------
    ConfigError
        It is no such strategy; secure aggregation, which hides each update from the server, is none.
    """

    def __init__(self, strategy: Strategy, options: RoundOptions, *, metrics: bool = True) -> None:
        if not isinstance(strategy, Strategy):
            raise ConfigError(
                "aggregation",
                strategy,
                "a strategy of flwr.serverapp.strategy",
                "Choose such a strategy. (Secure aggregation exists in Flower's former workflows only, and hides the "
                "updates that AoI-FL checks.)",
            )
        self._strategy, self._options, self._chain = strategy, options, chain_of(strategy)
        self._silenced: Mapping[str, Any] = {} if metrics else {"train_metrics_aggr_fn": lambda *_: MetricRecord()}
        self._standing = PersistentConfig()
        self._said = set[str]()
        self.begin(0, ArrayRecord())

    def drafts(
        self, kind: str, round_: int, arrays: ArrayRecord, config: ConfigRecord, nodes: Sequence[int], grid: Grid
    ) -> dict[int, Draft]:
        """Return the strategy's own messages to the chosen nodes."""
        if kind == protocol.TRAIN:
            config = self._standing.in_round(round_, config)
        if not nodes:  # without nodes Flower's sampling would wait
            return {}
        with _attributes(self._chain, _EVERYBODY):
            chosen = ChosenNodes(grid, nodes)
            messages = self._call(f"configure_{kind}", round_, arrays, config, chosen, made=messages_of)
        drafts = {m.metadata.dst_node_id: Draft(m.content, m.metadata.message_type) for m in messages}
        selected = set(nodes)
        for node, draft in drafts.items():
            if node not in selected:
                allowed = f"a strategy that writes to selected nodes only, and it writes to node {node}"
                remedy = "Let it take the nodes from grid.get_node_ids()."
            elif protocol.category(draft.kind) != kind:
                allowed = f"a strategy that sends {kind!r}, or {kind!r} with an action, and it sends {draft.kind!r}"
                remedy = f"Let it send '{kind}.mine', for instance."
            else:
                continue
            raise ConfigError("aggregation", type(self._strategy).__name__, allowed, remedy)
        return drafts

    def begin(self, round_: int, model: ArrayRecord) -> None:
        """Begin to gather the round's replies."""
        self._round, self._model, self.opaque = round_, model, is_opaque(model)
        self._accepted: dict[int, tuple[Message, float]] = {}
        self.spoiled: Mapping[int, str] = {}
        self._before: _Snapshot = []  # the last aggregation, where it left clients out
        for strategy in self._chain if round_ else ():
            if isinstance(getattr(strategy, "current_arrays", None), ArrayRecord):  # its own step, of all arrays
                vars(strategy)["current_arrays"] = model.copy()  # QFedAvg empties it

    def add(self, client: int, reply: Message, update: Update, weight: float) -> None:
        """Keep a reply, with its arrays in the model's types if they came in others, until all are there.

        Raises
        ------
        Refused
            Momentum would soon bring the model near the end of its type.
        """
        for name in oversized(update.arrays, _MOMENTUM, 4) if averages(self._strategy) else ():
            if largest(update.arrays[name]) > largest(self._model[name].numpy()):
                raise Refused(f"array {name} is too large for a step")
        if update.arrays and (key := model_key(reply.content, self._options.arrayrecord_key)) is not None:
            reply.content[key] = to_record(update.arrays)
        self._accepted[client] = reply, weight

    def finish(self) -> NewModel:
        """Have the strategy aggregate the replies, in client order, and bring the model back to its own types.

        Where the strategy raises, or its model is not finite, it aggregates again without the replies to blame. Where
        it can use none, the model stays, and so does what the strategy remembers.
        """
        accepted, self._accepted, self.spoiled = dict(sorted(self._accepted.items())), {}, {}
        if not accepted:
            return None, None
        known = self._extremes()

        def make(pairs: list[tuple[Message, float]]) -> NewModel:
            made = self._made(pairs, known)
            if made[0] is None and len(pairs) < len(accepted):  # as Bulyan of two: such a set proves nothing
                raise ArithmeticError("the strategy makes no model of so few replies")
            return made

        made, good, why = self._sifted(accepted, make)
        self.spoiled = spoilers(self._round, MODEL_STAYS, accepted, good, why)
        return made or (None, None)

    def undo(self) -> None:
        """Give the strategy back what it remembered before an aggregation that left clients out."""
        self._restore(self._before)

    def evaluated(self, round_: int, replies: Sequence[Message]) -> MetricRecord | None:
        """Have the strategy aggregate the accepted evaluations; None where it raises."""
        if not replies:
            return None
        key = self._options.weighted_by_key
        items = dict(enumerate(used := alike(whole(replies, key), key)))
        if left := nodes_of(reply for reply in replies if reply not in used):
            logger.warning("Round %d: the evaluation of %s is left out: it lacks metrics", round_, some_of(left))

        def make(some: list[Message]) -> MetricRecord | None:
            return self._call("aggregate_evaluate", round_, self._ready(some), made=metrics_or_none)

        made, good, why = self._sifted(items, make)
        log_left_out(round_, items, good, why)
        return made

    def state_dict(self) -> State:
        """Return the strategy's state, as far as :mod:`aoi_fl.strategies.aggregation.state` can keep it."""
        found: dict[str, AnyArray] = {}
        for prefix, part in self._parts().items():
            own = _own_state(part)
            kept, lost = state.dump(vars(part) if own is None else {"state_dict": own[0]()})
            found |= {f"{prefix}{k}": v for k, v in kept.items()}
            state.warn_of_lost(type(part).__name__, lost, self._said)
        return found

    def load_state_dict(self, memory: State) -> None:
        """Give the strategy its state back."""
        for prefix, part in self._parts().items():
            own, found = _own_state(part), dict[str, Any]()
            mine = {k.removeprefix(prefix): v for k, v in memory.items() if k.startswith(prefix)}
            lost = state.load(vars(part) if own is None else found, mine)
            if own is not None and found:
                own[1](found["state_dict"])
            state.warn_of_lost(type(part).__name__, lost, self._said)

    def _parts(self) -> dict[str, Any]:
        """Return what has a state, by the prefix of its names in a checkpoint."""
        strategies = {f"aggregation/{i}/": strategy for i, strategy in enumerate(self._chain)}
        return {**strategies, "aggregation/config/": self._standing}

    def summary(self) -> None:
        """Let the strategy say what it is."""
        logger.info("aggregation by Flower's %s", type(self._strategy).__name__)
        self._call("summary", made=bool)

    def _made(self, accepted: Sequence[tuple[Message, float]], known: int) -> NewModel:
        """Return what the strategy makes of replies with their weights; raise where it is not finite.

        ``known`` is how many extreme values the strategies kept before.
        """
        replies = self._ready(*zip(*accepted, strict=True))
        with np.errstate(all="ignore"), _attributes(self._chain, self._silenced):
            arrays, metrics = self._call("aggregate_train", self._round, replies, made=model_and_metrics)
            why = None
            if arrays is not None and not self.opaque:
                arrays = in_types_of(self._model, arrays)
                if averages(self._strategy):
                    arrays = self._with_statistics(arrays, accepted)
                why = flaw(arrays, self._model)
        if why is None and self._extremes() > known:
            why = "what the strategy keeps for the next round holds NaN, Inf or numbers near the end of their type"
        if why is not None:
            raise ArithmeticError(why)
        return arrays, metrics

    def _call(self, method: str, *arguments: Any, made: Callable[[Any], T]) -> T:
        """Call a method of the strategy."""
        where, wanted = f"{method} of {type(self._strategy).__name__}", "one that returns what Flower's strategies do"
        return call_own(where, getattr(self._strategy, method), *arguments, made=made, wanted=wanted)

    def _with_statistics(self, arrays: ArrayRecord, accepted: Sequence[tuple[Message, float]]) -> ArrayRecord:
        """Return a model whose batch statistics are the updates' mean, and whose arrays that no client changed stay."""
        key, measured = self._options.arrayrecord_key, self._options.measured
        updates = [reply.content.array_records[model_key(reply.content, key) or ""] for reply, _ in accepted]
        same = {k: array for k, array in self._model.items() if all(u[k].data == array.data for u in updates)}
        model = ArrayRecord({name: array for name, array in self._model.items() if is_statistic(name, measured)})
        mean = RunningMean(model)
        for update, (_, weight) in zip(updates, accepted, strict=True):
            mean.add({name: update[name].numpy() for name in model}, weight)
        return ArrayRecord({**arrays, **(mean.result() or {}), **same})

    def _sifted(
        self, items: Mapping[int, T], make: Callable[[list[T]], R]
    ) -> tuple[R | None, list[int], Exception | None]:
        """Return what the strategy makes of items, of which, and why not of all; its state is as after that alone."""
        before, tried = [(strategy, _copied(vars(strategy))) for strategy in self._chain], False

        def attempt(some: list[T]) -> R:
            nonlocal tried
            if tried:
                self._restore(before)
            tried = True
            return make(some)

        made, good, why = together(items, attempt)
        self._before = [] if why is None else before
        self._restore(self._before)
        if why is not None and good:
            with suppress(Exception):  # it worked once
                made = make([items[client] for client in good])
        return made, good, why

    @staticmethod
    def _restore(snapshot: _Snapshot) -> None:
        """Give the strategies copies of their attributes; the snapshot stays as it is."""
        for strategy, attributes in snapshot:
            copies = _copied(attributes)
            vars(strategy).clear()
            vars(strategy).update(copies)

    def _extremes(self) -> int:
        """Return how many values the strategies keep in arrays that are not finite, or near the end of their type."""
        kept = [array for strategy in self._chain for array in state.dump(vars(strategy))[0].values()]
        return sum(int((~(np.abs(a) <= near_end(a.dtype))).sum()) for a in kept if a.dtype.kind in "fc")

    def _ready(self, replies: Sequence[Message], weights: Sequence[float] | None = None) -> list[Message]:
        """Return copies as Flower's strategies expect them: the same records in each, with the same metrics, and ω."""
        key = next((s.weighted_by_key for s in self._chain if hasattr(s, "weighted_by_key")), None)
        arrays_key, examples_key = self._options.arrayrecord_key, self._options.weighted_by_key
        names = [(model_key(reply.content, arrays_key), metrics_key(reply.content, examples_key)) for reply in replies]
        usual = [Counter(column).most_common(1)[0][0] for column in zip(*names, strict=True)]
        own = [metrics_of(reply.content, examples_key) or MetricRecord() for reply in replies]
        contents, lost = list[dict[str, Any]](), set[str]()
        for i, metrics in enumerate(common([finite(record) for record in own])):
            called = dict(zip(names[i], usual, strict=True))  # by their names Flower's strategies compare records
            lost |= {f"metric {name!r}" for name in own[i].keys() - metrics.keys()}
            if weights is not None and key is not None:
                metrics[key] = weights[i]
            kept = {k: v for k, v in replies[i].content.items() if k in called or k not in (protocol.AOI, *usual)}
            contents.append({called.get(k) or k: v.copy() for k, v in kept.items()})
            contents[i][usual[1] or protocol.METRICS] = metrics
        held = [{(k, type(v)) for k, v in content.items() if not isinstance(v, ConfigRecord)} for content in contents]
        for content, kinds in zip(contents, held, strict=True):
            for name, _ in kinds.difference(set[tuple[str, type]].intersection(*held)):
                del content[name]
                lost.add(f"record {name!r}")
        if new := sorted({one_line(what) for what in lost} - self._said):
            self._said.update(new)
            logger.warning("Left out, because some clients send it otherwise or not at all: %s", some_of(new))
        messages = [copy(reply) for reply in replies]
        for message, content in zip(messages, contents, strict=True):
            message.content = RecordDict(content)
        return messages


def _own_state(part: Any) -> tuple[Callable[[], Any], Callable[[Any], None]] | None:
    """Return the methods by which a strategy keeps its state itself; None without both."""
    save, load = (getattr(part, way, None) for way in ("state_dict", "load_state_dict"))
    return (save, load) if callable(save) and callable(load) else None


def _copied(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with copies of those that can be copied; a strategy among them is one of the chain."""
    copies = dict(attributes)
    for name, value in attributes.items():
        if not isinstance(value, Strategy):
            with suppress(Exception):
                copies[name] = deepcopy(value)
    return copies


class ChosenNodes:
    """A grid that lists some of another's nodes; the rest of it is the other's."""

    def __init__(self, grid: Grid, nodes: Sequence[int]) -> None:
        self._grid, self._nodes = grid, list(nodes)

    def get_node_ids(self) -> list[int]:
        """Return the nodes that are listed."""
        return list(self._nodes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)


def is_opaque(model: ArrayRecord) -> bool:
    """Say whether a model is bytes without a shape of their own, as Flower's XGBoost strategies send trees."""
    return bool(model) and all(array.dtype == "uint8" and len(array.shape) == 1 for array in model.values())


def in_types_of(model: ArrayRecord, arrays: ArrayRecord) -> ArrayRecord:
    """Undo the promotion to float64 of FedAdam and its kin, else every client is refused a round later."""
    if not is_opaque(model):
        for name, array in model.items():
            if name in arrays and arrays[name].dtype != array.dtype:
                arrays[name] = Array(without_rounding(arrays[name].numpy(), array.numpy()))
    return arrays


@contextmanager
def _attributes(chain: Sequence[Strategy], values: Mapping[str, Any]) -> Iterator[None]:
    """Give strategies other values of attributes that they have."""
    before = [(strategy, {k: getattr(strategy, k) for k in values if hasattr(strategy, k)}) for strategy in chain]
    try:
        for strategy, own in before:
            vars(strategy).update({k: values[k] for k in own})
        yield
    finally:
        for strategy, own in before:
            vars(strategy).update(own)


class PersistentConfig:
    """The configuration that a strategy wrote a round ago, except where another part has changed it since.

    If no client is willing at first, a round is configured twice, both times alike.
    """

    def __init__(self) -> None:
        self._round = 0
        self._record, self._given = ConfigRecord(), dict[str, Any]()
        self._before, self._was = self._record, self._given

    def in_round(self, round_: int, given: ConfigRecord) -> ConfigRecord:
        """Return the record, with what is given now and was not, or was another, a round ago."""
        if round_ != self._round:
            self._round, self._before, self._was = round_, self._record, self._given
        kept = {key: value for key, value in self._before.items() if key in given or key not in self._was}
        changed = {key: value for key, value in given.items() if key not in self._was or self._was[key] != value}
        self._record, self._given = ConfigRecord({**kept, **changed}), dict(given)
        return self._record
