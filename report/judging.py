"""Means over seeds with their 95 % intervals, and the word on a paired difference."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

Word = Literal["better", "worse", "equal", "not distinguishable", "no conclusion"]
LEAST_SEEDS = 3  # with two an interval is 12.7 standard errors wide, each way
EQUAL = 0.005  # accuracies with a smaller difference, half a point, count as equal
_ERROR = 0.05  # of an interval, on both sides together
_ROUNDING = 1e-12  # share of the largest value below which a mean is the rounding error of its sum


@dataclass(frozen=True)
class Interval:
    """A mean over seeds with its 95 % t-interval, infinitely wide for a single seed."""

    mean: float
    half: float
    count: int

    @property
    def low(self) -> float:
        """The lower end."""
        return self.mean - self.half

    @property
    def high(self) -> float:
        """The upper end."""
        return self.mean + self.half

    @property
    def bar(self) -> float:
        """The half width for a picture: 0 for a single seed."""
        return self.half if math.isfinite(self.half) else 0.0

    def beyond(self, wanted: int, comparisons: int = 1) -> bool:
        """Return whether it lies above 0 (``wanted`` 1) or below (−1), for one of so many comparisons (Bonferroni)."""
        if not math.isfinite(self.half):
            return False
        wider = quantile(self.count, comparisons) / quantile(self.count)
        return bool(wanted * self.mean > wider * self.half)

    def show(self, digits: int = 2, unit: str = "") -> str:
        """Write mean and interval, for instance ``1.20 [0.80, 1.60]``."""
        if not self.count:
            return "–"
        if not math.isfinite(self.half):
            return f"{self.mean:.{digits}f}{unit} (one seed)"
        return f"{self.mean:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]{unit}"


def quantile(count: int, comparisons: int = 1) -> float:
    """Return Student's t of the 95 % interval from ``count`` seeds (Student 1908); inf for one."""
    from scipy.special import stdtrit

    return -float(stdtrit(count - 1, _ERROR / 2 / comparisons)) if count > 1 else math.inf


def interval(values: Sequence[float]) -> Interval:
    """Return the mean of independent values with its 95 % t-interval (for paired seeds: give their differences).

    >>> interval([0.1, 0.2, -0.3]).mean  # whose sum is 5.6e-17
    0.0
    """
    count = len(values)
    if count == 0:
        return Interval(math.nan, math.inf, 0)
    if count == 1:
        return Interval(float(values[0]), math.inf, 1)
    spread, mean = float(np.std(values, ddof=1)) / math.sqrt(count), float(np.mean(values))
    if abs(mean) < _ROUNDING * max(map(abs, values)):
        mean = 0.0
    return Interval(mean, quantile(count) * spread, count)


def difference(ours: ArrayLike, base: ArrayLike, least: float = 0.0) -> Interval:
    """Return by how much ours are above the base's, over paired seeds, with at least this half width."""
    found = interval(np.subtract(ours, base).tolist())
    return replace(found, half=max(found.half, least))


def judged(found: Interval, margin: float, wanted: int) -> Word:
    """Return the word on a paired difference: equal before better, since a smaller one does not matter.

    >>> judged(Interval(2.0, 1.0, 3), 0.5, 1), judged(Interval(-2.0, 1.0, 3), 0.5, 1)
    ('better', 'worse')
    >>> judged(Interval(0.2, 0.3, 3), 0.5, 1), judged(Interval(0.2, 0.31, 3), 0.5, 1)
    ('equal', 'not distinguishable')
    >>> judged(Interval(1.0, 1.0, 3), 0.5, 1), judged(Interval(2.0, 1.0, 2), 0.5, 1)
    ('not distinguishable', 'no conclusion')
    """
    if found.count < LEAST_SEEDS:
        return "no conclusion"
    if -margin <= found.low and found.high <= margin:
        return "equal"
    if found.beyond(wanted):
        return "better"
    return "worse" if found.beyond(-wanted) else "not distinguishable"


@dataclass(frozen=True)
class RunFinding:
    """One quantity of a pair of settings.

    Attributes
    ----------
    difference : the second setting minus the first, over paired seeds; None where runs are censored or not measured
    margin : differences within ± this count as equal
    word : the conclusion on the second setting
    note : a remark for the reader
    points : whether the page shows the difference in hundredths, as of two accuracies
    """

    quantity: str
    difference: Interval | None
    margin: float
    word: Word
    note: str = ""
    points: bool = False

    def __str__(self) -> str:
        """Write quantity, difference, interval and word."""
        return f"{self.quantity} {self.shown}: {self.conclusion}"

    @property
    def shown(self) -> str:
        """The difference and its interval, or the note where there is none."""
        if self.difference is None:
            return self.note
        factor, unit = (100, " points") if self.points else (1, "")
        ends = ""
        if math.isfinite(self.difference.half):
            ends = f" [{factor * self.difference.low:.3g}, {factor * self.difference.high:.3g}]"
        return f"{factor * self.difference.mean:+.3g}{unit}{ends}"

    @property
    def reach(self) -> float:
        """The largest absolute value of a forest plot."""
        found, margin = self.difference, self.margin if math.isfinite(self.margin) else 0.0
        return max(margin, 0.0 if found is None else abs(found.mean) + found.bar)

    @property
    def conclusion(self) -> str:
        """The word, with the margin if it is equal."""
        if self.word != "equal":
            return self.word
        return f"equal within ±{100 * self.margin:.3g} points" if self.points else f"equal within ±{self.margin:.3g}"


@dataclass(frozen=True)
class Pair:
    """A setting against the one before it, by runs of equal seeds.

    ``differences`` has the keys that differ beside those in the settings' names: effective values, the second's first.
    """

    first: str
    second: str
    seeds: tuple[int, ...]
    findings: tuple[RunFinding, ...]
    differences: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def __str__(self) -> str:
        """Write the conclusion in one line."""
        count = f"{len(self.seeds)} seed{'s' if len(self.seeds) > 1 else ''}"
        few = len(self.seeds) < LEAST_SEEDS
        hint = f"; {count} allow{'s' * (len(self.seeds) == 1)} no conclusion, give --seeds 3 or more" if few else ""
        also = "".join(f"; {line}" for line in self.differing)
        return f"{self.second} against {self.first} ({count}{also}): " + "; ".join(map(str, self.findings)) + hint

    @property
    def differing(self) -> list[str]:
        """The differences as text: weights: equal against size."""
        return [f"{key}: {ours} against {theirs}" for key, (ours, theirs) in self.differences.items()]
