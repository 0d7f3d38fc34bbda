"""REFL: of the available clients those least likely to be available next; late updates count too.

References
----------
A. M. Abdelmoniem, A. N. Sahu, M. Canini, S. A. Fahmy, "REFL: Resource-Efficient Federated Learning", EuroSys 2023:
Section 4.1, intelligent participant selection, and Section 4.2, staleness-aware aggregation, in
:mod:`aoi_fl.strategies.round.at_work` for any policy. Its adaptive target is left out.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aoi_fl.lab.rivals.learning import LearningSelector, State
from aoi_fl.science.client_stats import Report
from aoi_fl.science.presence import Presence
from aoi_fl.science.selection import Population, Selection, evenly
from aoi_fl.science.types import Floats

REST = 5  # rounds for which a client that has trained is passed over
_OLD = 0.25  # what the mean round's length keeps of itself


@dataclass(eq=False)
class Refl(LearningSelector):
    """The k available clients with the smallest chance of availability in the slot after this round, ties at random.

    The paper's clients *give* a forecast for the slot from one mean round's length μ to two from now, as foresight does
    here: 0 or 1. Otherwise it is learned from round to round. Clients that trained in the last rounds come last.
    Updates have equal weights.

    Attributes
    ----------
    rest : rounds after training in which a client comes last
    presence : the clients' availability
    """

    rest: int = REST
    presence: Presence = field(default_factory=Presence, init=False)
    _length: float = field(default=np.nan, init=False)  # μ, seconds
    _begun: float = field(default=np.nan, init=False)  # when the last round began

    def select(self, round_: int, population: Population) -> Selection:
        """Choose for a round; O(n log n)."""
        n = len(population.ages)
        here = np.flatnonzero(population.available & (population.sizes > 0))
        last = self.seen.reach(n).last[here]
        resting = (last > 0) & (last >= round_ - self.rest)
        return evenly(self.take_smallest(round_, here, n, self.forecast(population)[here], resting))

    def forecast(self, population: Population) -> Floats:
        """Return (n,) each client's chance of availability in the slot after this round."""
        if population.foresight is None or population.now is None:
            return self.presence.reach(len(population.ages)).staying
        length = self._mean_length(population)
        slot = population.now + length
        lasting: Floats = (population.foresight.until(slot) >= slot + length).astype(np.float64)
        return lasting

    def learn(self, round_: int, population: Population, report: Report) -> None:
        """Take note of the availability and of the round's length."""
        super().learn(round_, population, report)
        self.presence.note(population.available if population.connected is None else population.connected)
        if population.now is not None:
            self._length, self._begun = self._mean_length(population), population.now

    def describe(self) -> dict[str, Any]:
        """Return the rounds of rest."""
        return {"rest": self.rest}

    def state_dict(self) -> State:
        """Add availability and round lengths."""
        return {
            **super().state_dict(),
            **self.presence.state_dict(),
            "refl-times": np.array([self._length, self._begun]),
        }

    def load_state_dict(self, state: State) -> None:
        """Restore :meth:`state_dict`."""
        super().load_state_dict(state)
        self.presence.load_state_dict(state)
        self._length, self._begun = state["refl-times"].tolist()

    def _mean_length(self, population: Population) -> float:
        """Return μ = (1−α)·(the last round's length) + α·μ; before the second round, the median training's."""
        if population.foresight is None or population.now is None:
            return self._length
        if np.isnan(self._begun):
            return float(np.median(population.foresight.seconds))
        return (1 - _OLD) * (population.now - self._begun) + _OLD * self._length
