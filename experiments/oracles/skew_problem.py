"""What the skew is measured on: a federation in which every client's loss is known at every model."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.experiments.harness import setting
from aoi_fl.experiments.harness.replay import Dealt, dealt
from aoi_fl.science.history import History


@dataclass(frozen=True)
class Problem:
    """A data set dealt out to clients, and a model to train on it.

    Attributes
    ----------
    dataset, data_dir, model, seed : as run keys
    alpha : of the Dirichlet partition; None for IID
    """

    dataset: str
    data_dir: str
    model: str
    alpha: float | None
    seed: int

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Return how many examples each client has."""
        return _dealt(self).sizes

    def losses(self, arrays: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float64]:
        """Return F_k of a model."""
        there = _dealt(self)
        return np.array([there.task.evaluate(arrays, part)[0] for part in there.parts])

    def optima(self, local_steps: int, central_epochs: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return F_k* after long local training, and F_k of a centrally trained model; kept for the other policies."""
        return _optima(self, local_steps, central_epochs)

    def train(self, history: History) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Average the selected clients' models round after round.

        Returns
        -------
        tuple
            (T+1, n) losses F_k of the model that each round begins with, and of the last one; (T, n) weights ω.
        """
        weights = np.zeros((history.rounds, history.clients))
        for t in range(1, history.rounds + 1):
            selection = history.selection(t)
            weights[t - 1, selection.clients] = selection.weights
        return np.array([self.losses(arrays) for arrays in _dealt(self).models(history)]), weights


def _dealt(problem: Problem) -> Dealt:
    split: dict[str, Any] = {"kind": "iid"}
    if problem.alpha is not None:
        split = {"kind": "dirichlet", "alpha": problem.alpha}
    return dealt(problem.dataset, problem.data_dir, problem.model, problem.seed, setting.CLIENTS, **split)


@lru_cache(maxsize=1)
def _optima(problem: Problem, local_steps: int, central_epochs: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    there = _dealt(problem)
    first = there.task.initial_arrays()
    local = [
        there.task.evaluate(there.fit(first, part, client, 0, steps=local_steps)[0], part)[0]
        for client, part in enumerate(there.parts)
    ]
    everything = there.task.join([(part, 1.0) for part in there.parts])
    central, _ = there.fit(first, everything, setting.CLIENTS, 0, epochs=central_epochs)
    return np.array(local), problem.losses(central)
