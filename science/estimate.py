"""Estimates each client's sensitivity to age from the losses that it reports during a run.

A client of data age a reports the loss L = c + b_i + s_i·a + noise: c is the round's level, b_i the client's offset,
and s_i its slope. φ_i = q_i·s_i with q_i = d_i/Σ d. As ratios alone decide, φ is d_i/d̄·s_i/s̄. At first all slopes are
equal.
"""

import sys
from dataclasses import dataclass

import numpy as np

from aoi_fl.science.errors import ConfigError
from aoi_fl.science.types import Floats, Ints

MEMORY = 200  # reports; one this many of a client's reports ago counts 1/e as much as its last one
_LEAST = 0.05  # of the mean slope, for every client


@dataclass(frozen=True, eq=False)
class SlopeEstimate:
    """Estimates of the slopes s_i of n clients.

    Each client has a regression of its loss, less the round's level, on its age, with old reports forgotten. Slopes
    shrink towards their mean s̄, as under an exponential law. The round's level is the mean excess of known clients
    over their predictions. False reports are believed; clients that are always refreshed before they report keep φ_i =
    d_i/d̄.

    Attributes
    ----------
    moments : (6, n) weighted count, mean age, mean loss, and sums about the means of age², age·loss, loss²
    level : c of the last round
    """

    moments: Floats
    level: float = 0.0

    @classmethod
    def of(cls, clients: int) -> "SlopeEstimate":
        """Return the estimate of n unknown clients."""
        return cls(np.zeros((6, clients)))

    def joined(self, clients: int) -> "SlopeEstimate":
        """Return the estimate with more unknown clients at the end."""
        return SlopeEstimate(np.hstack([self.moments, np.zeros((6, clients))]), self.level)

    def after(self, clients: Ints, ages: Ints, losses: Floats) -> "SlopeEstimate":
        """Return the estimate after one more round's reports; losses that are not finite are left out.

        ``clients`` are distinct, ``ages`` those of the data behind the losses; all (s,).
        """
        sound = np.isfinite(losses)
        clients, ages, losses = clients[sound], ages[sound].astype(np.float64), losses[sound]
        if not clients.size:
            return self
        moments = self.moments.copy()
        count, mean_age, mean_loss, *sums = mine = moments[:, clients]
        known = count > 0
        expected = mean_loss + self.slopes[clients] * (ages - mean_age)
        level = float((losses - expected)[known].mean()) if known.any() else float(losses.mean())
        kept = count * (1 - 1 / MEMORY)
        count[:] = kept + 1
        age_off, loss_off = ages - mean_age, losses - level - mean_loss
        mean_age += age_off / count
        mean_loss += loss_off / count
        share = kept / count  # of a squared deviation from the old mean that is left about the new one
        for total, product in zip(sums, (age_off**2, age_off * loss_off, loss_off**2), strict=True):
            total[:] = total * (1 - 1 / MEMORY) + share * product
        moments[:, clients] = mine
        return SlopeEstimate(moments, level)

    @property
    def slopes(self) -> Floats:
        """Return (n,) s_i in loss per round of age, at least 5 % of their mean; zeros until the mean is positive."""
        count, _, _, ages, both, losses = self.moments
        spread = float(ages.sum())
        mean = float(both.sum()) / spread if spread > 0 else 0.0
        if mean <= 0:
            return np.zeros_like(ages)
        free = float(np.maximum(count - 2, 0).sum())
        own = np.divide(both, ages, out=np.zeros_like(ages), where=ages > 0)
        noise = float(np.maximum(losses - own * both, 0).sum()) / free if free > 0 else np.inf
        prior = noise / max(mean**2, sys.float_info.min)
        if not np.isfinite(prior):
            return np.full_like(ages, mean)
        slopes: Floats = (both + prior * mean) / np.maximum(ages + prior, np.finfo(float).tiny)
        return np.maximum(slopes, _LEAST * mean)

    def sensitivities(self, sizes: Ints) -> Floats:
        """Return (n,) φ_i = d_i/d̄·s_i/s̄, positive; d_i/d̄ at first.

        Raises ConfigError unless every client has a size.
        """
        if len(sizes) != self.moments.shape[1] or (sizes < 1).any():
            allowed = f"{self.moments.shape[1]} numbers from 1 on, one a client"
            raise ConfigError("sizes", len(sizes), allowed, "Give each client a size.")
        relative: Floats = sizes / sizes.mean()
        slopes = self.slopes
        return relative * slopes / slopes.mean() if slopes.any() else relative
