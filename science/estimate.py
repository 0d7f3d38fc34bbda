"""Estimating, while a run goes on, how much each client's age matters: from how its loss moves with its data's age.

A client of data age a reports the loss L = c + b_i + s_i·a + noise: c is the model's level in that round, which all
clients share, b_i what sets the client apart, and s_i the slope, how fast its data go bad. The objective is sensitive
to its age by φ_i = q_i·s_i with q_i = d_i/Σ d. As ratios alone decide, φ is told as d_i/d̄·s_i/s̄, 1 where
clients are alike. Before anything is known all slopes count as equal.
"""

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aoi_fl.science.errors import ConfigError

Floats = NDArray[np.float64]

MEMORY = 200  # reports; one this many of a client's reports ago counts 1/e as much as its last one
_LEAST = 0.05  # of the mean slope: nobody's age counts for nothing, however its loss moved
_COUNT, _AGE, _LOSS, _AGES, _BOTH, _LOSSES = range(6)  # the rows of the moments


@dataclass(frozen=True, eq=False)
class SlopeEstimate:
    """Estimates of the slopes s_i of n clients, from what they reported so far.

    For each client a regression of its loss, less the round's level, on its age, in which old reports are forgotten.
    The slopes are drawn towards their mean s̄, as if they had an exponential law (standard deviation s̄): with residual
    variance v, ages that vary by less than v/s̄² in all say little. The round's level is what the reports of known
    clients are above their own predictions, in the mean.

    A client that reports falsely is believed; clients that are always refreshed before they report keep φ_i = d_i/d̄.

    Attributes
    ----------
    moments : (6, n) of each client's reports: weighted count, mean age, mean loss, and the sums of squares and products
        about the means: age², age·loss, loss²
    level : c of the last round
    """

    moments: Floats
    level: float = 0.0

    @classmethod
    def of(cls, clients: int) -> "SlopeEstimate":
        """Return the estimate of n clients of whom nothing is known."""
        return cls(np.zeros((6, clients)))

    def joined(self, clients: int) -> "SlopeEstimate":
        """Return the estimate with so many newcomers at the end."""
        return SlopeEstimate(np.hstack([self.moments, np.zeros((6, clients))]), self.level)

    def after(self, clients: NDArray[np.int64], ages: NDArray[np.int64], losses: Floats) -> "SlopeEstimate":
        """Return the estimate after one more round's reports; losses that are not finite are left out.

        ``clients`` are distinct numbers, ``ages`` those of the data that the losses were computed on; all (s,).
        """
        sound = np.isfinite(losses)
        clients, ages, losses = clients[sound], ages[sound].astype(np.float64), losses[sound]
        if not clients.size:
            return self
        moments = self.moments.copy()
        count, mean_age, mean_loss, *_ = mine = moments[:, clients]
        known = count > 0
        expected = mean_loss + self.slopes[clients] * (ages - mean_age)
        level = float((losses - expected)[known].mean()) if known.any() else float(losses.mean())
        kept = count * (1 - 1 / MEMORY)
        mine[_COUNT] = kept + 1
        age_off, loss_off = ages - mean_age, losses - level - mean_loss
        mine[_AGE] += age_off / mine[_COUNT]
        mine[_LOSS] += loss_off / mine[_COUNT]
        share = kept / mine[_COUNT]  # of a squared deviation from the old mean that is left about the new one
        for row, product in ((_AGES, age_off**2), (_BOTH, age_off * loss_off), (_LOSSES, loss_off**2)):
            mine[row] = mine[row] * (1 - 1 / MEMORY) + share * product
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

    def sensitivities(self, sizes: NDArray[np.int64]) -> Floats:
        """Return (n,) φ_i = d_i/d̄·s_i/s̄, positive; d_i/d̄ where nothing is known.

        Raises ConfigError unless every client has a size.
        """
        if len(sizes) != self.moments.shape[1] or (sizes < 1).any():
            raise ConfigError(
                "sizes",
                len(sizes),
                f"{self.moments.shape[1]} numbers from 1 on, one a client",
                "Give each client a size.",
            )
        relative: Floats = sizes / sizes.mean()
        slopes = self.slopes
        return relative * slopes / slopes.mean() if slopes.any() else relative
