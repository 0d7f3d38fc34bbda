"""Estimates the share d of willing clients that are lost, for which tables make up.

A table made for d = 0 makes clients wait longer than n/k rounds: by about d/(1−d) where they retry at once, and
n/(k(1−d)) in all where the table does not depend on age. The optimal table for d restores E[X] = n/k.
"""

from dataclasses import dataclass

import numpy as np

from aoi_fl.science.rates import largest_rate
from aoi_fl.science.types import Floats

WINDOW = 50  # rounds; a round this long ago counts 1/e as much as the last one
_KEPT = 1 - 1 / WINDOW
_GRAIN = 1000  # d counts in thousandths, so the table does not change every round


@dataclass(frozen=True)
class DropoutEstimate:
    """An estimate of d from the counts of willing and of lost clients, (``lost`` ≤ ``willing``).

    Both counts forget exponentially, with :data:`WINDOW` rounds' memory. They begin with k willing clients, a Beta(0,
    k) prior that fades. With k = 15 the standard error settles at √(d(1−d)²/(100·k)), 0.01 at d = 0.3.
    """

    willing: float
    lost: float = 0.0

    def after(self, willing: float, lost: float) -> "DropoutEstimate":
        """Return the estimate after one more round; a round without willing clients does not count.

        >>> DropoutEstimate(15.0).after(20, 5).value
        0.144
        """
        if not willing:
            return self
        return DropoutEstimate(_KEPT * self.willing + willing, _KEPT * self.lost + lost)

    @property
    def value(self) -> float:
        """Return the estimate of d, in thousandths."""
        return round(_GRAIN * self.lost / self.willing) / _GRAIN


def largest_dropout(clients: int, per_round: int) -> float:
    """Return 1 − k/n, the largest d that a table can make up for, in thousandths rounded down.

    >>> largest_dropout(100, 15), largest_dropout(3, 1)
    (0.85, 0.666)
    """
    return (clients - per_round) * _GRAIN // clients / _GRAIN


def achieved(rates: Floats, dropout: float) -> Floats:
    """Return (n,) the rates that clients reach where a share d of their work is lost, min(r_i, 1−d).

    1−d counts for at least a thousandth, the grain of an estimate, so a rate is never 0.

    >>> achieved(np.array([1.0, 0.25]), 0.3).tolist()
    [0.7, 0.25]
    """
    return np.minimum(rates, max(largest_rate(dropout), 1 / _GRAIN))
