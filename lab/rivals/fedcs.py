"""FedCS: as many clients as can train and upload by a deadline, always next the one that finishes first.

Clients train at the same time and upload one after another. With Θ the time of the last chosen upload, a client is done
at max(Θ, t_UD) + t_UL.

References
----------
T. Nishio, R. Yonetani, "Client Selection for Federated Learning with Heterogeneous Resources in Mobile Edge", ICC 2019,
Algorithm 3. There the model is multicast before; here its download is part of t_UD.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from aoi_fl.lab.rivals.learning import LearningSelector, number_of_candidates
from aoi_fl.science import draws
from aoi_fl.science.selection import Population, Selection, by_size, smallest
from aoi_fl.science.types import Floats, Ints


def schedule(updates: Floats, uploads: Floats, deadline: float, most: int) -> Ints:
    """Return the positions of the chosen candidates in the order of their uploads, at most ``most``.

    ``updates`` and ``uploads`` are (d,) t_UD and t_UL, ``deadline`` counts from the round's start; all in seconds. The
    paper has no ``most``.

    >>> schedule(np.array([3.0, 1.0, 2.0]), np.array([1.0, 2.0, 4.0]), 7.0, 3).tolist()
    [1, 0]
    """
    chosen: list[int] = []
    now, left = 0.0, np.ones(len(updates), np.bool_)
    while left.any() and len(chosen) < most:
        done = np.where(left, np.maximum(now, updates) + uploads, np.inf)
        following = int(np.argmin(done))
        if done[following] > deadline:
            break
        chosen.append(following)
        left[following], now = False, float(done[following])
    return np.array(chosen, dtype=np.int64)


@dataclass(eq=False)
class FedCS(LearningSelector):
    """Of d candidates drawn at random, those of :func:`schedule`, weighted by data size.

    The paper's server is *given* each candidate's times, as foresight does here. Otherwise a client's duration is its
    last one, or the median for an untried client. A client that missed the end of its round counts with the time
    waited, at most the deadline: it comes last. Uploads then take no time of their own.

    Attributes
    ----------
    deadline : seconds from a round's start, above 0; at most ``per_round`` are chosen
    candidates : d; 0: 2k
    """

    deadline: float
    candidates: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.candidates = number_of_candidates(self.candidates, self.per_round, 1)

    def select(self, round_: int, population: Population) -> Selection:
        """Choose for a round; O(n + k·d)."""
        n = len(population.ages)
        uniforms = draws.uniforms(self.seed, round_, "candidates", n)
        who = smallest(uniforms, population.available & (population.sizes > 0), self.candidates)
        who = who[np.argsort(draws.uniforms(self.seed, round_, "select", n)[who])]  # the first of equals is chosen
        uploads = np.zeros(n) if population.foresight is None else population.foresight.uploads
        training = self.expected(population) - uploads
        chosen = who[schedule(training[who], uploads[who], self.deadline, self.per_round)]
        return by_size(np.sort(chosen), population.sizes)

    def describe(self) -> dict[str, Any]:
        """Return d and the deadline."""
        return {"candidates": self.candidates, "deadline": self.deadline}

    def expected(self, population: Population) -> Floats:
        """Return (n,) the clients' durations, foreseen or last observed; 0 before any trial."""
        if population.foresight is not None:
            return population.foresight.seconds
        seen = self.seen.reach(len(population.ages))
        known = ~np.isnan(seen.seconds)
        usual = np.median(seen.seconds[known]) if known.any() else 0.0
        return np.maximum(np.where(known, seen.seconds, usual), np.minimum(seen.waited, self.deadline))
