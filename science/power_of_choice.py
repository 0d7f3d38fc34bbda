"""Power-of-Choice: of d candidates drawn by data size, the k with the highest losses.

It leans towards clients on whose data the model does badly: faster at first, and biased, the more so the larger d/k is;
d = k is sampling by size, d = n takes the highest losses of all.

References
----------
Y. J. Cho, J. Wang, G. Joshi, "Towards Understanding Biased Client Selection in Federated Learning", AISTATS 2022
(as "Client Selection in Federated Learning", 2020), Section 4.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from aoi_fl.science import draws
from aoi_fl.science.client_stats import Clients, LearningSelector
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.rates import Floats
from aoi_fl.science.selection import Population, Selection, evenly, sequential

# From a round and candidates (d,) to the model's mean loss on each one's data, (d,); NaN for who does not say.
AskLosses: TypeAlias = Callable[[int, Clients], Floats]


def candidate_count(candidates: int, per_round: int) -> int:
    """Return d, the number of clients drawn first; 0 stands for 2k."""
    return candidates or 2 * per_round


@dataclass(eq=False)
class PowerOfChoice(LearningSelector):
    """d candidates drawn one after another in proportion to size, of whom the k with the highest losses weigh the same.

    With ``ask`` it is π_pow-d: the candidates evaluate the model of the round, who does not answer is passed over.
    Without, it is π_rpow-d: their losses are those that came with their last updates; nothing is asked, but the model
    was older. There a client that never took part has an infinite loss, so that everybody is tried once, and one that
    did without telling any has the mean of those told.

    Attributes
    ----------
    candidates : d, from k to the number of clients
    ask : what has candidates evaluate the model
    """

    candidates: int
    ask: AskLosses | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.candidates < self.per_round:
            raise ConfigError(
                "candidates", self.candidates, f"at least clients-per-round, {self.per_round}", "Raise it."
            )

    def select(self, round_: int, population: Population) -> Selection:
        """Choose for a round; O(n), beside what asking takes."""
        who = self.draw(round_, population)
        if self.ask is None:
            losses = self.reported(len(population.ages))[who]
        else:
            losses = self.ask(round_, who)
            who, losses = who[~np.isnan(losses)], losses[~np.isnan(losses)]
        ties = draws.uniforms(self.seed, round_, "select", len(population.ages))[who]
        return evenly(np.sort(who[np.lexsort((ties, -losses))[: self.per_round]]))

    def reported(self, clients: int) -> Floats:
        """Return (n,) the losses of the last updates, with what stands for those that were not told."""
        seen = self.seen.reach(clients)
        known = ~np.isnan(seen.losses)
        usual = seen.losses[known].mean() if known.any() else 0.0
        return np.where(known, seen.losses, np.where(seen.taken > 0, usual, np.inf))

    def draw(self, round_: int, population: Population) -> Clients:
        """Return the candidates of a round, ascending."""
        uniforms = draws.uniforms(self.seed, round_, "candidates", len(population.ages))
        weights = np.where(population.available, population.sizes, 0).astype(np.float64)
        return sequential(uniforms, weights, self.candidates)
