"""What a server observes of its clients during a run, and the base of the selectors that learn from it.

An update brings the client's mean training loss and its duration. A client that missed the end of its round shows how
long the server waited.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self, TypeAlias

import numpy as np

from aoi_fl.science import draws
from aoi_fl.science.types import Arrays, Floats, Ints

_SPREAD = 0.5  # of the logarithms of drawn losses
_SLOWEST = 1.0  # of those of drawn seconds: one client in forty takes more than seven times as long as the median one


@dataclass(frozen=True)
class Report:
    """The outcome of a round.

    Attributes
    ----------
    clients : (s,) int64, those with updates that counted, ascending
    losses : (s,) float64, mean training losses; NaN where unknown
    seconds : (s,) float64, from sending the model to the update's arrival; NaN where unknown
    late : (l,) int64, those without a usable reply when the round ended
    waited : (l,) float64, the seconds until then; 0 after an unusable reply
    """

    clients: Ints
    losses: Floats
    seconds: Floats
    late: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    waited: Floats = field(default_factory=lambda: np.zeros(0))


class ClientArrays:
    """Base of what is known of n clients: arrays (n,) that grow with the clients.

    Attributes
    ----------
    prefix : of the arrays' names in the state of a run
    unknown : the arrays by name, with the value of a new client
    """

    prefix: ClassVar[str]
    unknown: ClassVar[Mapping[str, float]]

    def __init__(self) -> None:
        for name, value in self.unknown.items():
            setattr(self, name, np.full(0, value))

    def reach(self, clients: int) -> Self:
        """Make room for n clients, the new ones unknown, and return this."""
        for name, value in self.unknown.items():
            if (more := clients - len(known := getattr(self, name))) > 0:
                setattr(self, name, np.append(known, np.full(more, value)))
        return self

    def state_dict(self) -> Arrays:
        """Return the arrays by name, for a resumed run."""
        return {f"{self.prefix}-{name}": getattr(self, name) for name in self.unknown}

    def load_state_dict(self, state: Arrays) -> None:
        """Restore :meth:`state_dict`."""
        for name in self.unknown:
            setattr(self, name, state[f"{self.prefix}-{name}"].copy())


# The reports of a round's clients in a simulation without learning, from the round and their numbers.
Reports: TypeAlias = Callable[[int, Ints], Report]


def drawn_reports(clients: int, seed: int) -> Reports:
    """Return reports for a simulation without learning: each client has one loss and one time.

    Both are drawn once, lognormal with median 1: losses with σ = 0.5, seconds with σ = 1.
    """
    rng = draws.generator(seed, 0, "reports")
    losses, seconds = rng.lognormal(0.0, _SPREAD, clients), rng.lognormal(0.0, _SLOWEST, clients)
    return lambda round_, who: Report(who, losses[who], seconds[who])
