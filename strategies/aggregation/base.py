"""What every aggregation is asked: what goes to the clients, and what becomes of their accepted replies."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid

from aoi_fl.strategies.guard import Update
from aoi_fl.strategies.records import Memory


class Draft(NamedTuple):
    """What a node is to be sent, but for our own record, and the message's type: "train", or "train.personal"."""

    content: RecordDict
    kind: str


class Intake(Protocol):
    """Takes a round's accepted updates, one by one."""

    @property
    def opaque(self) -> bool:
        """Whether the model is bytes of no constant shape, which only this aggregation can judge."""

    def begin(self, round_: int, model: ArrayRecord) -> None:
        """Begin to aggregate a round's updates of a model."""

    def add(self, client: int, reply: Message, update: Update, weight: float) -> None:
        """Add an accepted update with a weight ω ≥ 0."""

    def finish(self) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the new model, None if nothing could be made of the updates, and the clients' metrics."""


class Aggregation(Intake, Protocol):
    """From accepted updates to a model, and from clients' metrics to one record.

    The order of calls in a round is :meth:`to_train`, :meth:`begin`, :meth:`add` for each accepted update,
    :meth:`finish`; then :meth:`to_evaluate` and :meth:`evaluated`.
    """

    def to_train(
        self, round_: int, arrays: ArrayRecord, config: ConfigRecord, nodes: Sequence[int], grid: Grid
    ) -> Mapping[int, Draft]:
        """Return what each of the chosen nodes is sent; a node that is left out is sent nothing."""

    def to_evaluate(
        self, round_: int, arrays: ArrayRecord, config: ConfigRecord, nodes: Sequence[int], grid: Grid
    ) -> Mapping[int, Draft]:
        """Return what each of the evaluating nodes is sent."""

    def evaluated(self, round_: int, replies: Sequence[Message]) -> MetricRecord | None:
        """Return what the accepted evaluations say together, from replies in client order."""

    def memory(self) -> Memory:
        """Return what the next round needs to know of those before it."""

    def recall(self, memory: Memory) -> None:
        """Take back what :meth:`memory` returned."""

    def summary(self) -> None:
        """Log what there is to say before the first round."""
