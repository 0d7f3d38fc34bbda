"""The source of a client's data, which have an age."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aoi_fl.science.age import ClientAge

Indices: TypeAlias = NDArray[np.int64]


class Source:
    """The source of a client's examples; by default they age from refresh to refresh.

    ``first_age`` is their age before round 1.
    """

    first_age: int = 0

    def age(self, clock: ClientAge, round_: int) -> int:
        """Return the data's age before a round's decision; ``clock`` has the last refresh."""
        return clock.age(round_)

    def refresh(self, round_: int) -> None:
        """Renew the data, which are then of this round; the effect of an emulated refresh follows from its round."""

    def examples(self, task: Any, round_: int, age: int) -> Any:
        """Return the task's examples for training in a round with data of age Δ."""
        raise NotImplementedError


@dataclass(frozen=True)
class Fixed(Source):
    """Data that never change: the first paper's setting, and the base of the emulated sources.

    Attributes
    ----------
    indices : (n,) the client's images in the data set
    number : the counter of the client's draws
    seed : the run's seed
    first_age : the data's age before round 1
    """

    indices: Indices
    number: int = 0
    seed: int = 0
    first_age: int = 0

    def examples(self, task: Any, round_: int, age: int) -> Any:
        """Return the client's images unchanged."""
        return task.examples(self.indices)
