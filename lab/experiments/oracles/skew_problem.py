"""The problem for the skew: a federation with every client's loss at every model."""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from aoi_fl.lab.experiments.harness.base import Floats
from aoi_fl.lab.experiments.harness.replay import Dealt
from aoi_fl.lab.experiments.harness.setting import weights_of
from aoi_fl.science.history import History


def losses(there: Dealt, arrays: Mapping[str, NDArray[np.float32]]) -> Floats:
    """Return (n,) F_k of a model."""
    return np.array([there.task.evaluate(arrays, part)[0] for part in there.parts])


@lru_cache(maxsize=1)
def optima(there: Dealt, local_steps: int, central_epochs: int) -> tuple[Floats, Floats]:
    """Return (n,) F_k* after long local training, and F_k of a centrally trained model; kept for the other policies."""
    first = there.task.initial_arrays()
    local = [
        there.task.evaluate(there.fit(first, part, client, 0, steps=local_steps)[0], part)[0]
        for client, part in enumerate(there.parts)
    ]
    everything = there.task.join([(part, 1.0) for part in there.parts])
    central, _ = there.fit(first, everything, len(there.parts), 0, epochs=central_epochs)
    return np.array(local), losses(there, central)


def train(there: Dealt, history: History) -> tuple[Floats, Floats]:
    """Average the selected clients' models round after round.

    Returns
    -------
    tuple
        (T+1, n) losses F_k of the model that each round begins with, and of the last one; (T, n) weights ω.
    """
    return np.array([losses(there, arrays) for arrays in there.models(history)]), weights_of(history)
