"""The model that is served: the newest, or an exponential average of the models of all rounds.

With the share β in [0, 1), the served model after round t is

    s_t = Σ_{i≤t} β^{t−i} θ_i / Σ_{i≤t} β^{t−i},

the mean of the models after rounds 1 … t; the newest has weight 1, the one before it β. Training goes on from θ_t.

References
----------
B. T. Polyak, A. B. Juditsky 1992, Acceleration of stochastic approximation by averaging, SIAM J. Control Optim. 30(4).
"""

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

from aoi_fl.protocol.records import State

_ROUNDS, _PREFIX = "served-rounds", "served/"


class ServedModel:
    """The model that is evaluated and saved.

    Parameters
    ----------
    share : β in [0, 1); 0 serves the newest model
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._rounds = 0
        self._means: dict[str, NDArray[np.floating]] = {}

    def add(self, arrays: ArrayRecord) -> ArrayRecord:
        """Take in the model after a round, and return the model to serve.

        Arrays of whole numbers, such as counters, are served as they are.
        """
        if not self._share:
            return arrays
        self._rounds += 1
        newest = (1 - self._share) / (1 - self._share**self._rounds)  # weight of this round's model
        for name, array in arrays.items():
            value = array.numpy()
            if np.issubdtype(value.dtype, np.floating):
                mean = self._means.get(name)
                moved = value.copy() if mean is None else mean + newest * (value - mean)
                self._means[name] = np.asarray(moved, value.dtype)  # a sum of 0-d arrays is a scalar
        return self.current(arrays)

    def current(self, arrays: ArrayRecord) -> ArrayRecord:
        """Return the model to serve after the last round, given the newest."""
        return ArrayRecord({k: Array(self._means[k]) if k in self._means else v for k, v in arrays.items()})

    def state_dict(self) -> State:
        """Return what the next round needs."""
        if not self._rounds:
            return {}
        return {_ROUNDS: np.array([self._rounds]), **{_PREFIX + name: mean for name, mean in self._means.items()}}

    def load_state_dict(self, memory: State) -> None:
        """Take back what :meth:`state_dict` returned."""
        if self._share and _ROUNDS in memory:
            self._rounds = int(memory[_ROUNDS][0])
            self._means = {k.removeprefix(_PREFIX): v.copy() for k, v in memory.items() if k.startswith(_PREFIX)}
