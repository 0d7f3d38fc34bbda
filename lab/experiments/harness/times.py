"""Earlier or later: rounds to a level, the shift over a range of levels, and runs that never get there.

The time shift is the mean, over a range of levels, of how many rounds later a policy reaches the same level as another,
in pairs of runs that share first model and partition. A single target would depend on one round's noise.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import stats

from aoi_fl.lab.experiments.harness.stats import interval
from aoi_fl.lab.experiments.harness.verdicts import side, undecided

# Levels: from three points of accuracy below a target up to it, the target left out; near the ceiling, where less than
# two points are left above it, from half of that.
RANGE, STEP, _CEILING = 0.03, 0.001, 0.02
_ENUMERATED = 16  # pairs, up to which all changes of signs are tried out
_ERROR = 0.05
_PAIRS = 6  # below which no signs have a chance below the error
NOT_BY_ALL = "not reached by all seeds"  # text for a level


def levels(target):
    """Return the levels of accuracy below a target over which times are shifted, ascending.

    >>> levels(0.97)[[0, -1]].tolist(), levels(0.99).tolist()
    ([0.94, 0.969], [0.985, 0.986, 0.987, 0.988, 0.989])
    """
    span = RANGE if 1 - target > _CEILING else (1 - target) / 2
    return np.round(target - span + STEP * np.arange(round(span / STEP)), 6)


def reached(curves, level, spent=None):
    """Return (seeds,) the first round of (seeds, rounds) accuracies at a level, infinite where never.

    With ``spent``, (seeds, rounds), it is the spending up to that round.
    """
    there = curves >= level
    first = there.argmax(axis=1)
    at = first + 1.0 if spent is None else spent[np.arange(len(curves)), first]
    return np.where(there.any(axis=1), at, np.inf)


def shifts(ours, base, target, spent=None):
    """Return (seeds,) by how many rounds ours are later than the base at the same level, the mean over the levels.

    With ``spent`` of both it is the difference in spending. NaN for a seed that never reaches some level.
    """
    own, theirs = (None, None) if spent is None else spent
    pairs = [(reached(ours, level, own), reached(base, level, theirs)) for level in levels(target)]
    times = np.array(pairs)
    times[np.isinf(times)] = np.nan
    return (times[:, 0] - times[:, 1]).mean(axis=0)


def shift(ours, base, target, spent=None):
    """Return :func:`shifts` over paired seeds with its interval; None if a run never reaches some level."""
    found = shifts(ours, base, target, spent)
    return interval(found) if np.isfinite(found).all() and found.size else None


@dataclass(frozen=True)
class Earlier:
    """A comparison of the times to a level, where some runs never reach it.

    Attributes
    ----------
    pairs : compared
    lead : mean difference of ranks, ours minus the base's, of all runs pooled; below 0 if ours is earlier
    chance : two-sided p-value of so large a lead
    """

    pairs: int
    lead: float
    chance: float

    @property
    def verdict(self):
        """The verdict on the claim that ours is earlier."""
        if self.chance >= _ERROR:
            return undecided(self.pairs, _PAIRS)
        return "holds" if self.lead < 0 else "refuted"


def earlier(ours, base):
    """Test paired times, infinite where a run ended before the level.

    The generalised Wilcoxon scores of Gehan (1965), for runs of equal length the pooled ranks with unfinished runs tied
    at the top, in the paired form of O'Brien & Fleming (1987): the sign of each pair's difference is a coin. Exact up
    to 16 pairs, normal approximation beyond. The least p-value of n pairs is 2/2ⁿ: below 5 % from six pairs on.
    """
    ranks = stats.rankdata(np.concatenate([ours, base]))
    differences = ranks[: len(ours)] - ranks[len(ours) :]
    lead = differences.mean() if len(differences) else 0.0
    if not differences.any():
        return Earlier(len(ours), lead, 1.0)
    total = abs(differences.sum())
    if len(differences) > _ENUMERATED:
        return Earlier(len(ours), lead, 2 * stats.norm.sf(total / np.sqrt(differences @ differences)))
    signs = np.array(list(product((-1.0, 1.0), repeat=len(differences))))
    return Earlier(len(ours), lead, (np.abs(signs @ differences) >= total - 1e-9).mean())


def sooner(ours, base, target):
    """Judge the claim that ours learns faster: by the shift, or, where runs end short, by the test at the target."""
    if not len(ours):
        return "not run"
    moved = shift(ours, base, target)
    if moved is not None:
        return side([moved], -1)
    times, others = reached(ours, target), reached(base, target)
    if not np.isfinite(times).any() and not np.isfinite(others).any():
        return "not run"
    return earlier(times, others).verdict
