"""F3AST: learns rates that clients can keep up, and selects clients with rates that lag behind their share.

With q_i = d_i/Σd and r_i client i's rate, the weights q_i/r_i on updates are unbiased as far as r_i is known, and their
variance grows with H(r) = Σ q_i²/r_i. The k available clients with the steepest −∂H/∂r_i = q_i²/r_i² are selected, and
r ← (1−β)r + β·1_S. A client that comes every X rounds has (1 − (1−β)^X)/(βX) of q_i: 0.91 for X = 20. Rates approach
the least H under the clients' availability, whatever it is.

References
----------
M. Ribero, H. Vikalo, G. de Veciana, "Federated Learning Under Intermittent Client Availability and Time-Varying
Communication Constraints", IEEE J. Sel. Top. Signal Process. 17(1), 2023 (arXiv 2205.06730, 2022), Algorithm 1.
"""

from dataclasses import dataclass, field

import numpy as np

from aoi_fl.lab.rivals.learning import LearningSelector, State
from aoi_fl.science.client_stats import Report
from aoi_fl.science.selection import Population, Selection
from aoi_fl.science.types import Floats, Ints

STEP = 0.01  # β, as in the authors' code


@dataclass(eq=False)
class F3ast(LearningSelector):
    """The k available clients with the largest q_i/r_i, ties at random, with weights q_i/r_i on their updates.

    The rates are of updates that counted, so a client that was selected and lost weighs more when it returns.

    Attributes
    ----------
    step : β in (0, 1): a rate remembers some 1/β rounds
    wanted : updates of a round that count, where more clients are selected; 0: all
    rates : (n,) r_i; newcomers begin at equal turns, this project's choice (the authors' code: q_i, or 1/n)
    """

    shares = False  # weights are not shares of a round
    step: float = STEP
    wanted: int = field(default=0, kw_only=True)
    rates: Floats = field(default_factory=lambda: np.zeros(0), init=False)

    def select(self, round_: int, population: Population) -> Selection:
        """Choose for a round; O(n log n)."""
        n = len(population.ages)
        self._reach(n)
        here = np.flatnonzero(population.available & (population.sizes > 0))
        # The root of the steepness, up to a common factor; a vanished rate does not divide.
        steep = population.sizes[here] / np.maximum(self.rates[here], np.finfo(np.float64).tiny)
        chosen = self.take_smallest(round_, here, n, -steep)
        weights = population.sizes[chosen] / population.sizes.sum() / self.after(chosen)[chosen]
        return Selection(chosen, weights, np.ones_like(chosen))

    def after(self, taken: Ints) -> Floats:
        """Return (n,) the rates once the updates of these have counted in a round."""
        counted = np.zeros(len(self.rates))
        counted[taken] = 1.0
        return np.asarray((1 - self.step) * self.rates + self.step * counted)

    def learn(self, round_: int, population: Population, report: Report) -> None:
        """Update the rates."""
        super().learn(round_, population, report)
        self._reach(len(population.ages))
        self.rates = self.after(report.clients)

    def state_dict(self) -> State:
        """Add the rates."""
        return {**super().state_dict(), "f3ast-rates": self.rates}

    def load_state_dict(self, state: State) -> None:
        """Restore :meth:`state_dict`."""
        super().load_state_dict(state)
        self.rates = state["f3ast-rates"].copy()

    def _reach(self, clients: int) -> None:
        more = clients - len(self.rates)
        if more > 0:
            usual = min(1.0, (self.wanted or self.per_round) / clients)
            self.rates = np.append(self.rates * (len(self.rates) / clients), np.full(more, usual))
