"""Central policies that learn from what clients report: their losses, and how long they take."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.science.errors import ConfigError
from aoi_fl.science.seen import LearningSelector, Report
from aoi_fl.science.selection import Population
from aoi_fl.strategies.records import Memory, Participation, RoundRecord
from aoi_fl.strategies.selection.central import CentralSelection
from aoi_fl.strategies.weighting import UNBIASED

_IN_VAIN = ("failed", "refused")  # outcomes of one that has answered, with nothing of use


class LearnedSelection(CentralSelection):
    """A strategy over any :class:`aoi_fl.science.seen.LearningSelector`.

    It is told the loss that each client reports with its update (any metric whose name has "loss" in it), the seconds
    that the update took to come, and how long those were waited for that missed the end of their round; a resumed run
    knows what the run knew.
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

    def counted(self) -> NDArray[np.bool_] | None:
        """Return None: rates that are learned are of all, and of the rounds in which they are away."""
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

    def observe(self, unanswered: int) -> None:
        """Let the selector learn what came with the updates."""
        if self._population is not None:
            self.selector.learn(self._record.round, self._population, report(self._record))
            self._population = None


def report(record: RoundRecord) -> Report:
    """Return what a round's updates told, and of whom none came that could be used."""
    parts = sorted(record.participations, key=lambda part: part.client)
    came = [part for part in parts if part.outcome == "trained"]
    late = [part for part in parts if part.outcome in _IN_VAIN or (part.outcome == "late" and part.seconds is not None)]

    def clients(of: Sequence[Participation]) -> NDArray[np.int64]:
        return np.array([part.client for part in of], dtype=np.int64)

    losses, seconds = (np.array([getattr(part, name) for part in came], np.float64) for name in ("loss", "seconds"))
    waited = np.array([part.seconds or 0.0 for part in late], np.float64)
    return Report(clients(came), losses, seconds, clients(late), waited)  # None became NaN
