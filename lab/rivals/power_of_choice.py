"""Power-of-Choice: of d candidates drawn by data size, the k with the highest losses.

It is faster at first, and biased, the more so the larger d/k is; d = k is sampling by size, d = n takes the highest
losses of all.

References
----------
Y. J. Cho, J. Wang, G. Joshi, "Towards Understanding Biased Client Selection in Federated Learning", AISTATS 2022
(as "Client Selection in Federated Learning", 2020), Section 4.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from aoi_fl.lab.rivals.learning import LearningSelector, number_of_candidates, sequential
from aoi_fl.science import draws
from aoi_fl.science.selection import Population, Selection, evenly
from aoi_fl.science.types import Floats, Ints

# From a round and (d,) candidates to (d,) the model's mean losses on their data; NaN without an answer.
AskLosses: TypeAlias = Callable[[int, Ints], Floats]


@dataclass(eq=False)
class PowerOfChoice(LearningSelector):
    """d candidates drawn one after another in proportion to size; the k with the highest losses get equal weights.

    With ``ask`` it is π_pow-d: the candidates evaluate the round's model, and a silent one is skipped. Without, it is
    π_rpow-d: the losses come from the last updates. An untried client then has an infinite loss, and one with an
    unknown loss the mean of the known ones.

    Attributes
    ----------
    candidates : d, from k to the number of clients; 0: 2k
    ask : asks candidates to evaluate the model
    """

    candidates: int = 0
    ask: AskLosses | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.candidates = number_of_candidates(self.candidates, self.per_round, self.per_round)

    def select(self, round_: int, population: Population) -> Selection:
        """Choose for a round; O(n), beside what asking takes."""
        who = self.draw(round_, population)
        if self.ask is None:
            losses = self.reported(len(population.ages))[who]
        else:
            losses = self.ask(round_, who)
            who, losses = who[~np.isnan(losses)], losses[~np.isnan(losses)]
        return evenly(self.take_smallest(round_, who, len(population.ages), -losses))

    def describe(self) -> dict[str, Any]:
        """Return d."""
        return {"candidates": self.candidates}

    def reported(self, clients: int) -> Floats:
        """Return (n,) the losses of the last updates, with substitutes for unknown ones."""
        seen = self.seen.reach(clients)
        known = ~np.isnan(seen.losses)
        usual = seen.losses[known].mean() if known.any() else 0.0
        return np.where(known, seen.losses, np.where(seen.taken > 0, usual, np.inf))

    def draw(self, round_: int, population: Population) -> Ints:
        """Return the candidates of a round, ascending."""
        uniforms = draws.uniforms(self.seed, round_, "candidates", len(population.ages))
        weights = np.where(population.available, population.sizes, 0).astype(np.float64)
        return sequential(uniforms, weights, self.candidates)
