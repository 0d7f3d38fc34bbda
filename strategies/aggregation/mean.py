"""A weighted mean that holds one update at a time."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from aoi_fl.science.errors import ConfigError
from aoi_fl.science.refl import late_weights
from aoi_fl.strategies.aggregation.base import MODEL_STAYS, NO_METRICS, Draft, called, log_failure, nodes_of
from aoi_fl.strategies.aggregation.metrics import aggregate, stripped, whole
from aoi_fl.strategies.guard import Update
from aoi_fl.strategies.plan import RoundOptions
from aoi_fl.strategies.records import Memory
from aoi_fl.wire import npy, protocol

_BLOCK = 1 << 17  # values added at once: their products, 1 MiB, stay in the processor's cache, and calls are few
_KINDS = "fiub"  # of NumPy's types: those that have a mean


class RunningMean:
    """Σ ω_i θ_i / Σ ω_i over updates as they arrive, summed in float64; or θ + Σ ω_i (θ_i − θ).

    Memory is two models in float64, whatever the number of updates. The result has the model's own types.

    Parameters
    ----------
    model : θ, the arrays that the updates must match (they are checked elsewhere)
    on_updates : whether the weights act on the updates θ_i − θ, and need not sum to 1
    """

    def __init__(self, model: ArrayRecord, on_updates: bool = False) -> None:
        self._model = model
        self._on_updates = on_updates
        self._sums: dict[str, NDArray[np.float64]] = {}
        self._total = 0.0
        self._products = np.empty(0)

    def add(self, arrays: Mapping[str, NDArray[np.generic]], weight: float) -> None:
        """Add one update with a weight ω ≥ 0.

        It was checked whole before, at the speed of memory: a refused one must leave no trace in the sum. To find NaN
        only while adding would take a second sum to fall back on, and longer.
        """
        if not self._products.size:
            self._products = np.empty(min(_BLOCK, max((array.size for array in arrays.values()), default=0)))
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

    def add_change(self, change: Mapping[str, NDArray[np.generic]], weight: float) -> None:
        """Add an update that is told by how it differs from the model that it was made from, in any order of arrays."""
        self.add({name: self._model[name].numpy() + change[name] for name in self._model}, weight)

    def distances(self, changes: Sequence[Mapping[str, NDArray[Any]]]) -> NDArray[np.float64]:
        """Return how far each of some changes of the model is from the mean change of those added; 0 if none was.

        Arrays of whole numbers, which count, are left out.
        """
        squares = np.zeros(len(changes))
        for name, total in self._sums.items() if self._total > 0 else ():
            model = self._model[name].numpy()
            if model.dtype.kind == "f":
                mean = total / self._total - model
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
            model = self._model[name]
            with np.errstate(over="ignore", invalid="ignore"):
                mean = total + (1 - self._total) * model.numpy() if self._on_updates else total / self._total
                new = cast(mean, model.dtype)
            if not (npy.is_finite(mean) and npy.is_finite(new)):
                raise OverflowError(f"array {name} does not fit {model.dtype}")
            means[name] = Array(new)
        return ArrayRecord(means)


def cast(values: NDArray[np.generic], dtype: str) -> NDArray[np.generic]:
    """Return values in a type, rounded to the nearest where that is whole numbers; an array, also of 0 dimensions."""
    wanted = np.dtype(dtype)
    if values.dtype != wanted and wanted.kind in "iub":
        values = np.rint(values)
    return np.asarray(values, wanted)


class Mean:
    """AoI-FL's own aggregation: a running mean of models, in the arrays' own types.

    Parameters
    ----------
    options : names of records, and how metrics are aggregated
    on_updates : as in :class:`RunningMean`
    """

    opaque = False

    def __init__(self, options: RoundOptions, on_updates: bool = False) -> None:
        self._options, self._on_updates = options, on_updates
        self._round, self._mean = 0, RunningMean(ArrayRecord())
        self._contents: dict[int, RecordDict] = {}

    def to_train(
        self, round_: int, arrays: ArrayRecord, config: ConfigRecord, nodes: Sequence[int], grid: Grid
    ) -> dict[int, Draft]:
        """Send every node the model and the configuration, with the round in it as FedAvg has it."""
        for name, array in arrays.items():
            if np.dtype(array.dtype).kind not in _KINDS:
                raise ConfigError(
                    f"array {name!r} of the model is {array.dtype}: a mean takes real numbers, whole numbers and truth "
                    "values. Leave it out of the model, or give a Flower strategy that aggregates it (aggregation=…)."
                )
        return self._drafts(protocol.TRAIN, round_, arrays, config, nodes)

    def begin(self, round_: int, model: ArrayRecord) -> None:
        """Start from nothing."""
        self._round, self._mean, self._contents = round_, RunningMean(model, self._on_updates), {}

    def add(self, client: int, reply: Message, update: Update, weight: float) -> None:
        """Add the arrays to the sum, and keep the rest of the reply."""
        self._mean.add(update.arrays, weight)
        self._contents[client] = stripped(reply)

    def add_late(
        self, changes: Sequence[Mapping[str, NDArray[np.generic]]], weights: Sequence[float], rounds_late: Sequence[int]
    ) -> list[float]:
        """Add what became of earlier models, when all updates in time have been added; return the weights it is given.

        Parameters
        ----------
        changes : updates, each less the model that it was made from
        weights, rounds_late : ω and τ of each; it is given ω times :func:`aoi_fl.science.refl.late_weights`
        """
        shares = late_weights(np.array(rounds_late, dtype=np.int64), self._mean.distances(changes))
        given: list[float] = (np.array(weights, dtype=np.float64) * shares).tolist()
        for change, weight in zip(changes, given, strict=True):
            self._mean.add_change(change, weight)
        return given

    def finish(self) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the mean, None also where it is beyond its type, and the means of the metrics weighted by examples.

        Where a function for the metrics raises, over what one client reports, the model stays too.
        """
        contents = [content for _, content in sorted(self._contents.items())]
        options, metrics = self._options, None
        try:
            metrics = aggregate(contents, options.weighted_by_key, options.train_metrics_aggr_fn)
            return self._mean.result(), metrics
        except OverflowError as error:
            log_failure(self._round, MODEL_STAYS, called(self._contents), str(error))
        except Exception as error:  # of the caller's function
            log_failure(self._round, MODEL_STAYS, called(self._contents), error)
        return None, metrics

    def to_evaluate(
        self, round_: int, arrays: ArrayRecord, config: ConfigRecord, nodes: Sequence[int], grid: Grid
    ) -> dict[int, Draft]:
        """Send every node the model and the configuration."""
        return self._drafts(protocol.EVALUATE, round_, arrays, config, nodes)

    def evaluated(self, round_: int, replies: Sequence[Message]) -> MetricRecord | None:
        """Return the means of the metrics weighted by examples; None where a function of the caller's raises."""
        options = self._options
        function = options.evaluate_metrics_aggr_fn
        used = replies if function is None else whole(replies, options.weighted_by_key)
        contents = [stripped(reply) for reply in used]
        try:
            return aggregate(contents, options.weighted_by_key, function)
        except Exception as error:  # of the caller's function
            log_failure(round_, NO_METRICS, nodes_of(replies), error)
            return None

    def _drafts(
        self, kind: str, round_: int, arrays: ArrayRecord, config: ConfigRecord, nodes: Sequence[int]
    ) -> dict[int, Draft]:
        config = ConfigRecord({**config, "server-round": round_})
        content = RecordDict({self._options.arrayrecord_key: arrays, self._options.configrecord_key: config})
        return dict.fromkeys(nodes, Draft(content, kind))

    def memory(self) -> Memory:
        """Return nothing: a mean knows of no other round."""
        return {}

    def recall(self, memory: Memory) -> None:
        """Take nothing back."""

    def summary(self) -> None:
        """Say nothing: it is the default."""
