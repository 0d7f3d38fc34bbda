"""Intervals over seeds, and the test that theory and simulation agree."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from aoi_fl.report.judging import Interval as Interval
from aoi_fl.report.judging import difference as difference
from aoi_fl.report.judging import interval as interval
from aoi_fl.report.judging import quantile

FAMILYWISE = 0.001  # probability that exact theory is called wrong at any of a figure's points


@dataclass(frozen=True)
class Ratio:
    """A ratio of two paired means with its 95 % interval by Fieller (1954), unbounded where the lower mean may be 0."""

    value: float
    low: float
    high: float

    def show(self, digits=3):
        """Write the ratio and its interval, for instance ``1.20 [0.80, 1.60]``."""
        ends = f" [{self.low:.{digits}f}, {self.high:.{digits}f}]" if math.isfinite(self.high) else " (unbounded)"
        return f"{self.value:.{digits}f}{ends}"

    def percent(self):
        """Write by how many percent the upper mean is above the lower one, for instance ``+12.4 [8.5, 16.4] %``."""
        above = [100 * (end - 1) for end in (self.value, self.low, self.high)]
        ends = f" [{above[1]:.1f}, {above[2]:.1f}]" if math.isfinite(self.high) else " (unbounded)"
        return f"{above[0]:+.1f}{ends} %"


def ratio(above, below):
    """Return the ratio of two sums over paired seeds, with the values r for which above − r·below may have mean 0.

    The set {r : |t(above − r·below)| ≤ t₀.₉₇₅} is an interval if the lower mean differs from 0 beyond chance.
    """
    a, b = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    value = a.sum() / b.sum() if len(b) and b.sum() else math.nan
    if len(a) < 2:
        return Ratio(value, -math.inf, math.inf)
    t2 = quantile(len(a)) ** 2 / len(a)
    spread = np.cov(a, b)
    square = b.mean() ** 2 - t2 * spread[1, 1]
    middle = a.mean() * b.mean() - t2 * spread[0, 1]
    rest = middle**2 - square * (a.mean() ** 2 - t2 * spread[0, 0])
    if square <= 0:
        return Ratio(value, -math.inf, math.inf)
    half = math.sqrt(max(rest, 0.0))  # below 0 by a rounding only
    return Ratio(value, (middle - half) / square, (middle + half) / square)


def paired_curves(rows, by, names, column, reduce=None):
    """Return (seeds, rounds) values of a column for each name in column ``by``, over the seeds that all names have.

    ``reduce`` turns each run into a number, for arrays (seeds,). Without a common seed the result is empty.
    """
    found = {}
    for row in rows:
        found.setdefault(row[by], {}).setdefault(row["seed"], []).append(row[column])
    common = sorted(set.intersection(*map(set, found.values()))) if found else []
    runs = {name: [found[name][s] for s in common] for name in names if name in found} if common else {}
    return {name: np.array([reduce(run) for run in of] if reduce else of) for name, of in runs.items()}


def run_means(rows, policies, column):
    """Return (seeds,) means over all rounds for each policy, in pairs: stated by the rows, or of the rows."""
    stated = ({**row, column: row.get(f"mean {column}", row[column])} for row in rows)
    return paired_curves(stated, "policy", policies, column, _mean)


def _mean(values):
    return values[0] if len({*values}) == 1 else math.fsum(values) / len(values)


@dataclass(frozen=True)
class Agreement:
    """The distance of a simulation from exact theory.

    Attributes
    ----------
    points : compared
    largest : t, in absolute value, at the worst of them; NaN without two seeds for a test
    limit : of t, below which all points stay with probability 99.9 % if theory is true
    """

    points: int
    largest: float
    limit: float

    @property
    def holds(self):
        """Whether no point exceeds the limit."""
        return self.largest <= self.limit

    def verdict(self, otherwise):
        """Return the verdict on a claim that rests on the agreement: ``otherwise``, unless it is untested."""
        return "undecided" if math.isnan(self.largest) else otherwise

    def __str__(self):
        """Return it as a clause."""
        if math.isnan(self.largest):
            return "could not be compared (one seed: not tested)"
        return (
            f"{'agree' if self.holds else 'do NOT agree'} at all {self.points} points at a familywise error of "
            f"{FAMILYWISE:.1%} (largest t {self.largest:.2f}, Bonferroni limit {self.limit:.2f})"
        )


def agreement(points):
    """Compare means over independent seeds with exact expectations, by t-tests with Bonferroni's correction.

    Each point has the seeds' values, as many for every point, and their exact expectation. Values without spread must
    equal it to 1e-9. Fewer than two seeds, or no points, allow no test.
    """
    count = len(points[0][0]) if points else 0
    if count < 2:
        return Agreement(len(points), math.nan, math.nan)
    limit = stats.t.isf(FAMILYWISE / len(points) / 2, count - 1)
    largest = 0.0
    for values, exact in points:
        off = abs(np.mean(values) - exact)
        error = np.std(values, ddof=1) / math.sqrt(count)
        if off > 1e-9 * max(1.0, abs(exact)):
            largest = max(largest, off / error if error > 1e-12 else math.inf)
    return Agreement(len(points), largest, limit)


def share(count, total):
    """Write the share of independent draws that have a property, with its 95 % interval (Wilson 1927)."""
    ends = stats.binomtest(count, total).proportion_ci(method="wilson")
    return f"{100 * count / total:.1f} [{100 * ends.low:.1f}, {100 * ends.high:.1f}] %"
