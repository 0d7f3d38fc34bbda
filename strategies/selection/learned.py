"""Central policies that learn from what clients report: their losses, and how long they take."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord
from numpy.typing import NDArray

from aoi_fl.science.errors import ConfigError
from aoi_fl.science.seen import LearningSelector, Report
from aoi_fl.science.selection import Population
from aoi_fl.strategies.records import Memory, RoundRecord
from aoi_fl.strategies.selection.central import CentralSelection
from aoi_fl.strategies.weighting import UNBIASED


class LearnedSelection(CentralSelection):
    """A strategy over any :class:`aoi_fl.science.seen.LearningSelector`.

    It is told the loss that each client reports with its update (any metric whose name has "loss" in it), and the
    seconds that the update took to come; a resumed run knows what the run knew.
    """

    selector: LearningSelector

    def __init__(self, selector: LearningSelector, **settings: Any) -> None:
        super().__init__(selector, selector.per_round, **settings)
        if self.weights == UNBIASED and type(self).rates is LearnedSelection.rates:
            raise ConfigError(
                "weights is 'unbiased', but under a policy that learns nobody knows how often a client will take part: "
                "choose weights 'size', or a policy with a rate (random, Markov, systematic)."
            )
        self._population: Population | None = None

    def rates(self) -> NDArray[np.float64] | None:
        """Return None: how often a client takes part follows from what it reports."""
        return None

    def memory(self) -> dict[str, NDArray[Any]]:
        """Return what the base does, and what the selector has learned."""
        return {**super().memory(), **self.selector.memory()}

    def recall(self, memory: Memory) -> None:
        """Take back what :meth:`memory` returned."""
        super().recall(memory)
        self.selector.recall(memory)

    def population(self, round_: int) -> Population:
        """Return the clients as the selector sees them, and remember from whom it chose."""
        self._population = super().population(round_)
        return self._population

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Add the updates up, and let the selector learn what came with them."""
        result = super().aggregate_train(server_round, replies)
        if self._population is not None:
            self.selector.learn(server_round, self._population, report(self._record))
            self._population = None
        return result


def report(record: RoundRecord) -> Report:
    """Return what a round's updates told."""
    parts = sorted((part for part in record.participations if part.outcome == "trained"), key=lambda part: part.client)

    def column(name: str) -> NDArray[np.float64]:
        return np.array([getattr(part, name) for part in parts], dtype=np.float64)  # None becomes NaN

    return Report(np.array([part.client for part in parts], dtype=np.int64), column("loss"), column("seconds"))
