"""What every aggregation is asked: what goes to the clients, and what becomes of their accepted replies."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvg, FedAvgM, FedProx, FedYogi, Strategy

from aoi_fl.protocol import npy
from aoi_fl.protocol.log import logger
from aoi_fl.protocol.records import State
from aoi_fl.strategies.validation import Update, one_line, some_of

T = TypeVar("T")
R = TypeVar("R")
# The new model, None if nothing could be made of the updates, and what the clients' metrics say together.
NewModel: TypeAlias = tuple[ArrayRecord | None, MetricRecord | None]
AVERAGING = (FedAvg, FedAvgM, FedAdagrad, FedAdam, FedYogi, FedProx)  # Flower's strategies that make a step of the mean
_NEAR_END = 0.85  # a power of the largest number of a type
_ATTEMPTS = 64  # to aggregate what some clients sent, once all of it together has failed
MODEL_STAYS, NO_METRICS = "the model stays as it was", "the clients' evaluation is left out"  # after a failure


class Draft(NamedTuple):
    """What a node is to be sent, but for our own record, and the message's type: "train", or "train.personal"."""

    content: RecordDict
    kind: str


class Aggregation(Protocol):
    """From accepted updates to a model, and from clients' metrics to one record.

    The order of calls in a round is :meth:`drafts` of the training, :meth:`begin`, :meth:`add` for each accepted
    update, :meth:`finish`; then :meth:`drafts` of the evaluation and :meth:`evaluated`.

    Attributes
    ----------
    spoiled : why the last :meth:`finish` left clients out, by client
    opaque : whether the model is bytes of no constant shape, which only this aggregation can judge
    """

    spoiled: Mapping[int, str]
    opaque: bool

    def begin(self, round_: int, model: ArrayRecord) -> None:
        """Begin to aggregate a round's updates of a model."""

    def add(self, client: int, reply: Message, update: Update, weight: float) -> None:
        """Add an accepted update with a weight ω ≥ 0."""

    def finish(self) -> NewModel:
        """Return the new model, None if nothing could be made of the updates, and the clients' metrics."""

    def undo(self) -> None:
        """Forget the last :meth:`finish`, since its model is not used; by default nothing is kept of it."""
        return

    def drafts(
        self, kind: str, round_: int, arrays: ArrayRecord, config: ConfigRecord, nodes: Sequence[int], grid: Grid
    ) -> Mapping[int, Draft]:
        """Return what each of the nodes is sent to train or to evaluate; one that is left out is sent nothing."""

    def evaluated(self, round_: int, replies: Sequence[Message]) -> MetricRecord | None:
        """Return what the accepted evaluations say together, from replies in client order."""

    def state_dict(self) -> State:
        """Return what the next round needs to know of those before it; by default nothing."""
        return {}

    def load_state_dict(self, memory: State) -> None:
        """Take back what :meth:`state_dict` returned."""
        return

    def summary(self) -> None:
        """Log what there is to say before the first round; by default nothing."""
        return


def together(items: Mapping[int, T], make: Callable[[list[T]], R]) -> tuple[R | None, list[int], Exception | None]:
    """Return what ``make`` made of the clients of which it could make something, these in order, and why not of all.

    Where all together fail, halves are searched for the items over which it fails: about log n calls for one of n, and
    a bounded number for many. What succeeds with few items is kept, since some aggregations need several.

    Parameters
    ----------
    items : what each client sent
    make : raises where it cannot use the items
    """
    made: R | None = None
    good: list[int] = []
    reasons: list[Exception] = []
    attempts = 0

    def works(clients: Iterable[int]) -> bool:
        nonlocal made, good, attempts
        attempts += 1
        if attempts > _ATTEMPTS:
            return False
        trial = sorted(clients)
        try:
            made = make([items[client] for client in trial])
        except Exception as error:  # over what a client has sent
            reasons.append(error)
            return False
        good = trial
        return True

    def search(some: list[int]) -> None:
        if some and not works([*good, *some]) and len(some) > 1:
            half = len(some) // 2
            search(some[:half])
            search(some[half:])

    search(list(items))
    before = 0
    while reasons and before < len(good):
        before = len(good)
        search([client for client in items if client not in good])
    if not good and len(items) > 1:  # it may need nearly all of them
        any(works(items.keys() - {client}) for client in items)
    return made, good, reasons[0] if reasons else None


def spoilers(
    round_: int, lost: str, clients: Collection[int], good: Collection[int], why: Exception | None
) -> dict[int, str]:
    """Return why those of the clients are left out that are not among the good; log what is lost where none is.

    Parameters
    ----------
    round_, lost : as in :func:`log_failure`
    clients : clients with an aggregated reply
    good, why : as :func:`together` returned them
    """
    if why is not None and not good:
        log_failure(round_, lost, called(clients), why)
    reason = f"the round's aggregation fails with it: {type(why).__name__}: {why}"
    return dict.fromkeys(sorted(set(clients).difference(good)), reason)


def averages(strategy: Strategy) -> bool:
    """Return whether a Flower strategy makes its step of nothing but the updates' mean."""
    return type(strategy).aggregate_train in {kind.aggregate_train for kind in AVERAGING}


# What batch normalisation measures, by the names of PyTorch, Keras and Flax.
_STATISTICS = re.compile(r"(^|[._/])((running|moving)_(mean|var|variance)|batch_stats|num_batches_tracked)($|[._/])")


def is_statistic(name: str, measured: Collection[str] = ()) -> bool:
    """Return whether an array is measured, not trained, so that a step of it beyond the mean makes no sense."""
    return name in measured or _STATISTICS.search(name) is not None


def called(clients: Iterable[int]) -> list[str]:
    """Return clients as a log calls them, in their order."""
    return [f"client {client}" for client in sorted(clients)]


def nodes_of(replies: Iterable[Message]) -> list[str]:
    """Return where replies come from, as a log calls it."""
    return [f"node {reply.metadata.src_node_id}" for reply in replies]


def log_failure(round_: int, lost: str, clients: Sequence[str], why: Exception | str) -> None:
    """Log why an aggregation failed, what is lost by that, and the clients that it aggregated.

    Parameters
    ----------
    round_ : of the aggregation
    lost : the consequence
    clients : clients with an aggregated reply
    why : what was raised, with its traceback in the log, or what is wrong with the result
    """
    raised = why if isinstance(why, Exception) else None
    reason = one_line(str(why) if raised is None else f"{type(why).__name__}: {why}")
    logger.error(
        "Round %d: %s. The aggregation of %s failed: %s", round_, lost, some_of(clients), reason, exc_info=raised
    )


def log_left_out(round_: int, replies: Mapping[int, Message], good: Collection[int], why: Exception | None) -> None:
    """Log the evaluations over which an aggregation fails; ``good`` and ``why`` as :func:`together` returned them."""
    left = nodes_of(reply for i, reply in replies.items() if i not in good)
    if why is not None and not good:
        log_failure(round_, NO_METRICS, left, why)
    elif why is not None:
        reason = one_line(f"{type(why).__name__}: {why}")
        logger.warning("Round %d: the evaluation of %s is left out: %s", round_, some_of(left), reason)


def near_end(dtype: np.dtype[Any]) -> float:
    """Return a number near the largest of a floating type; sums of many up to there fit."""
    return math.pow(np.finfo(dtype).max, _NEAR_END)


def flaw(arrays: ArrayRecord, model: ArrayRecord) -> str | None:
    """Return what is wrong with a new model; None if nothing.

    What was not finite in the old model may stay as it was.
    """
    for name, array in arrays.items():
        before = model[name].numpy() if name in model else np.empty(0)
        if not npy.is_sound(array.numpy(), before):
            return f"array {name} holds NaN or Inf"
    return None
