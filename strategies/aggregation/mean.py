"""A weighted mean that holds one update at a time."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid

from aoi_fl.protocol import npy
from aoi_fl.protocol.arrays import to_record
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.types import AnyArray, Arrays, Floats, Ints
from aoi_fl.strategies.aggregation.base import (
    MODEL_STAYS,
    Aggregation,
    Draft,
    NewModel,
    called,
    is_statistic,
    log_failure,
    log_left_out,
    near_end,
    spoilers,
    together,
)
from aoi_fl.strategies.aggregation.metrics import aggregate, stripped, whole
from aoi_fl.strategies.plan import AggregateMetrics, RoundOptions
from aoi_fl.strategies.validation import Refused, Update

_NOVELTY = 0.35  # β of :func:`late_weights`, the paper's
_BLOCK = 1 << 17  # values added at once: their products, 1 MiB, stay in the processor's cache, and calls are few
_LARGE = 2**40  # of whole numbers: sums of many in float64 begin to round
_KINDS = "fiub"  # of NumPy's types: those that have a mean


class RunningMean:
    """Σ ω_i θ_i / Σ ω_i over updates as they arrive, summed in float64; or θ + Σ ω_i (θ_i − θ).

    Memory is two models in float64, whatever the number of updates. The result has the model's own types.

    Parameters
    ----------
    model : θ, the arrays that the updates must match (they are checked elsewhere)
    on_updates : whether the weights act on the updates θ_i − θ, and need not sum to 1
    measured : names of arrays that are averaged all the same, beside batch statistics
    """

    def __init__(self, model: ArrayRecord, on_updates: bool = False, measured: Collection[str] = ()) -> None:
        self._model = model
        self._on_updates, self._measured = on_updates, measured
        self._sums: dict[str, Floats] = {}
        self._total = 0.0
        self._products = np.empty(_BLOCK)

    def add(self, arrays: Arrays, weight: float) -> None:
        """Add one update with a weight ω ≥ 0.

        It was checked whole before, at the speed of memory: a refused one must leave no trace in the sum. To find NaN
        only while adding would take a second sum to fall back on, and longer.
        """
        for name, array in arrays.items():
            if name not in self._sums:
                self._sums[name] = np.zeros(array.shape, np.float64)
            total, values = self._sums[name].reshape(-1), array.reshape(-1)
            for start in range(0, values.size, _BLOCK):
                block, sums = values[start : start + _BLOCK], total[start : start + _BLOCK]
                product = self._products[: block.size]
                np.copyto(product, block)  # cast first, whole: as part of another step NumPy does it 8192 at a time
                np.multiply(product, weight, out=product)
                np.add(sums, product, out=sums)
        self._total += weight

    def beyond(self, arrays: Arrays, weight: float) -> str | None:
        """Return the name of an array that alone would bring the sum near the end of its type; None if none would.

        A mean of models stays within their types, and its sums in float64 do too, unless the model is of that type.
        """
        return next(oversized(arrays, max(weight, 1.0), 0 if self._on_updates else 8), None)

    def add_change(self, change: Arrays, weight: float) -> None:
        """Add an update, given as its change of the model that it was made from, in any order of arrays."""
        self.add({name: np.asarray(array.numpy() + change[name]) for name, array in self._model.items()}, weight)

    def distances(self, changes: Sequence[Arrays]) -> Floats:
        """Return how far each of some changes of the model is from the mean change of those added; 0 if none was.

        Arrays of whole numbers, which count, are left out.
        """
        squares = np.zeros(len(changes))
        for name, total in self._sums.items() if self._total > 0 else ():
            model = self._model[name].numpy()
            if model.dtype.kind == "f":
                mean = npy.change(total / self._total, model)
                mean = np.where(np.isfinite(mean), mean, 0.0)
                squares += [np.vdot(apart, apart) for apart in (mean - change[name] for change in changes)]
        return np.sqrt(squares)

    def result(self) -> ArrayRecord | None:
        """Return the new model, or None if nothing with a positive weight was added.

        Raises
        ------
        OverflowError
            An array of it does not fit its type, as a sum of large updates may not.
        """
        if self._total <= 0:
            return None
        means = {}
        for name, total in self._sums.items():
            old = self._model[name].numpy()
            with npy.silent_overflow():
                stepped = self._on_updates and not is_statistic(name, self._measured)
                mean = total + (1 - self._total) * old if stepped else total / self._total
                if not npy.is_finite(mean):  # what is finite neither in the mean nor in the model stays
                    mean = np.where(np.isfinite(mean) | np.isfinite(old), mean, old)
                new = without_rounding(mean, old)
            if not npy.is_sound(mean, old) or not npy.is_sound(new, old):
                raise OverflowError(f"array {name} does not fit {old.dtype}")
            means[name] = new
        return to_record(means)


def oversized(arrays: Arrays, factor: float, itemsize: int) -> Iterator[str]:
    """Yield the names of floating arrays, of so many bytes a value or more, that a factor brings near their end."""
    for name, array in arrays.items():
        floating = array.dtype.kind == "f" and array.dtype.itemsize >= itemsize
        if floating and largest(array) * factor > near_end(array.dtype):
            yield name


def largest(array: AnyArray) -> float:
    """Return the largest size of the finite values; a mask in the model may hold others."""
    found = max(float(array.max(initial=0)), -float(array.min(initial=0)))
    return found if math.isfinite(found) else float(np.abs(array[np.isfinite(array)]).max(initial=0))


def without_rounding(values: AnyArray, model: AnyArray) -> AnyArray:
    """Return values in the model's type, whole numbers to the nearest.

    Of large whole numbers of 64 bits, which float64 may have rounded, the model's stay.
    """
    if model.dtype.kind not in "iub" or values.dtype == model.dtype:
        return np.asarray(values, model.dtype)
    if model.dtype.itemsize < 8 or values.shape != model.shape:
        return np.asarray(np.rint(values), model.dtype)
    large = ~(np.abs(values) < _LARGE)
    return np.where(large, model, np.rint(np.where(large, 0, values)).astype(model.dtype))


class Mean(Aggregation):
    """AoI-FL's own aggregation: a running mean of models, in the arrays' own types.

    Where a function aggregates the metrics, updates are held until it has accepted them.

    Parameters
    ----------
    options : names of records, and how metrics are aggregated
    on_updates : as in :class:`RunningMean`
    """

    opaque = False
    _lost = MODEL_STAYS  # by an aggregation that can use none of the replies

    def __init__(self, options: RoundOptions, on_updates: bool = False) -> None:
        self._options, self._on_updates = options, on_updates
        self.begin(0, ArrayRecord())

    def drafts(
        self, kind: str, round_: int, arrays: ArrayRecord, config: ConfigRecord, nodes: Sequence[int], grid: Grid
    ) -> Mapping[int, Draft]:
        """Send every node the model and the configuration, with the round in it as FedAvg has it."""
        for name, array in arrays.items():
            if np.dtype(array.dtype).kind not in _KINDS:
                allowed = "real numbers, whole numbers or truth values, for a mean"
                remedy = "Leave it out of the model, or give a Flower strategy that aggregates it (aggregation=…)."
                raise ConfigError(f"array {name!r} of the model", str(array.dtype), allowed, remedy)
        config = ConfigRecord({**config, "server-round": round_})
        content = RecordDict({self._options.arrayrecord_key: arrays, self._options.configrecord_key: config})
        return dict.fromkeys(nodes, Draft(content, kind))

    def begin(self, round_: int, model: ArrayRecord) -> None:
        """Start from nothing."""
        self._mean = RunningMean(model, self._on_updates, self._options.measured)
        self._round = round_
        self._contents: dict[int, RecordDict] = {}
        self._held: dict[int, tuple[Arrays, float]] = {}
        self._metrics: MetricRecord | None = None
        self.spoiled: Mapping[int, str] = {}

    def add(self, client: int, reply: Message, update: Update, weight: float) -> None:
        """Add the arrays to the sum, and keep the rest of the reply.

        Raises
        ------
        Refused
            The sum would be beyond its type.
        """
        if name := self._mean.beyond(update.arrays, weight):
            raise Refused(f"array {name} is too large for a weighted sum")
        if self._options.train_metrics_aggr_fn is None:
            self._take(update.arrays, weight)
        else:
            self._held[client] = update.arrays, weight
        self._contents[client] = stripped(reply)

    def add_late(self, changes: Sequence[Arrays], weights: Sequence[float], rounds_late: Sequence[int]) -> list[float]:
        """Add what became of earlier models, when all updates in time have been added; return the weights it is given.

        Parameters
        ----------
        changes : updates, each less the model that it was made from
        weights, rounds_late : ω and τ of each; it is given ω times :func:`late_weights`
        """
        self._settle()
        shares = late_weights(np.array(rounds_late, dtype=np.int64), self._mean.distances(changes))
        given: list[float] = (np.array(weights, dtype=np.float64) * shares).tolist()
        for change, weight in zip(changes, given, strict=True):
            self._mean.add_change(change, weight)
        return given

    def finish(self) -> NewModel:
        """Return the mean, None also where it is beyond its type, and the means of the metrics weighted by examples.

        Replies over which a function for the metrics raises are left out.
        """
        clients = called(self._contents)
        self._settle()
        try:
            return self._mean.result(), self._metrics
        except OverflowError as error:
            log_failure(self._round, MODEL_STAYS, clients, str(error))
        return None, self._metrics

    def _settle(self) -> None:
        """Aggregate the metrics, and add the updates that were held for that."""
        contents, self._contents = dict(sorted(self._contents.items())), {}
        if not contents:
            return
        self._metrics, good, why = self._aggregated(contents, self._options.train_metrics_aggr_fn)
        self.spoiled = spoilers(self._round, self._lost, contents, good, why)
        for client in good if self._held else ():
            self._take(*self._held[client])
        self._held = {}

    def _take(self, arrays: Arrays, weight: float) -> None:
        self._mean.add(arrays, weight)

    def _aggregated(
        self, contents: Mapping[int, RecordDict], function: AggregateMetrics | None
    ) -> tuple[MetricRecord | None, list[int], Exception | None]:
        """Return the metrics of as many contents as a function takes, their clients, and why not of all."""
        return together(contents, lambda some: aggregate(some, self._options.weighted_by_key, function))

    def evaluated(self, round_: int, replies: Sequence[Message]) -> MetricRecord | None:
        """Return the means of the metrics weighted by examples; None where a function of the caller's raises."""
        function = self._options.evaluate_metrics_aggr_fn
        used = dict(enumerate(replies if function is None else whole(replies, self._options.weighted_by_key)))
        metrics, good, why = self._aggregated({i: stripped(reply) for i, reply in used.items()}, function)
        log_left_out(round_, used, good, why)
        return metrics


def late_weights(rounds_late: Ints, distances: Floats) -> Floats:
    """Return (s,) the weights of late updates, where one in time counts 1.

    (1−β)/(τ+1) + β(1 − exp(−Λ/Λ_max)), Abdelmoniem et al. 2023, Section 4.2: less for a later one, more for a new
    direction. Λ/Λ_max is the ratio of squared distances from the mean update.

    Parameters
    ----------
    rounds_late : (s,) τ ≥ 1
    distances : (s,) from the mean update in time, ≥ 0; all 0 where there is none

    >>> late_weights(np.array([1, 3]), np.array([1.0, 2.0])).round(4).tolist()
    [0.4024, 0.3837]
    """
    near = np.isfinite(distances)  # the squares of a huge update are not
    furthest = distances.max(initial=0.0, where=near)
    share = np.where(near, (distances / furthest) ** 2 if furthest > 0 else 0.0, 1.0)
    return (1 - _NOVELTY) / (rounds_late + 1) + _NOVELTY * (1 - np.exp(-share))
