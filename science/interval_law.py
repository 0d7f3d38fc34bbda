"""The laws of the interval X in closed form, under systematic participation and of clients with rates of their own.

A stride is 1/r rounds. Jitter J, cut to 1−r, puts participation j off to s_j = j − u + J·w_j strides; its round is the
first one to end after that. The phase u and the w_j are uniform on [0, 1), as both rules of phases make them.

Source: derived here; without jitter Var[X] is the minimum of Javani & Wang 2024, Theorem 2.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np

from aoi_fl.science.rates import exact, pooled_variance
from aoi_fl.science.rule import IntervalLaw
from aoi_fl.science.tables import decimal
from aoi_fl.science.types import Floats, Ints

_DIFFERENCE = ((-1, 1), (0, -2), (1, 1))  # steps and factors of a second difference


@dataclass(frozen=True)
class StrideLaw:
    """The law of a client that takes part systematically, at a rate and with jitter J in [0, 1].

    >>> law = StrideLaw(15 / 100)
    >>> law.interval_pmf().round(12).tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.333333333333, 0.666666666667]
    >>> round(law.interval_variance, 12), law.window_variances([3, 10, 100])
    (0.222222222222, [0.2475, 0.25, 0.0])
    >>> law = StrideLaw(15 / 100, 0.2)
    >>> law.interval_pmf().round(4).tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0278, 0.3715, 0.5069, 0.0938]
    >>> round(law.interval_variance, 4), round(law.window_variances([100])[0], 4)
    (0.4653, 0.0667)
    """

    rate: float
    jitter: float = 0.0

    @property
    def _exact_mean(self) -> Fraction:
        return 1 / exact(self.rate)

    @property
    def _width(self) -> Fraction:
        """Return c = J/r in rounds, J cut to 1−r."""
        return min(decimal(self.jitter), 1 - exact(self.rate)) / exact(self.rate)

    @property
    def interval_mean(self) -> float:
        """E[X], in rounds."""
        return 1 / self.rate

    @property
    def interval_variance(self) -> float:
        """Var[X], in rounds²: f(1−f) with f = frac(1/r), and what the jitter adds.

        It adds nothing for J/r up to the smaller of f and 1−f: a jitter of less than a round costs nothing there.
        """
        rest = self._exact_mean % 1
        if not self._width:
            return float(rest * (1 - rest))
        law = self.interval_pmf()
        possible: list[int] = np.flatnonzero(law).tolist()
        return sum(float(law[at]) * (at + 1 - self.interval_mean) ** 2 for at in possible)

    def interval_pmf(self) -> Floats:
        """Return P(X = x) at position x−1; without jitter X is ⌊1/r⌋ and, with probability frac(1/r), one round more.

        Two participations are D = (1 + J(w'−w))/r rounds apart before they fall into whole rounds, and X is D rounded
        up or down without bias: P(X = x | D) = max(0, 1−|x−D|). D itself is triangular about 1/r with half-width c =
        J/r, so that P(X = x) is the density of two triangular variables' sum at x − 1/r, of half-widths 1 and c. With w
        the smaller of them and W the larger, that is the second difference of g(y) = |y| + w·max(0, 1−|y|/w)³/3 in
        steps of W, over 2W², in which no large cubes cancel, as they do in that of |y|³ in steps of both.
        """
        mean, width = self._exact_mean, self._width
        whole, rest = divmod(mean, 1)
        if not width:
            return np.concatenate((np.zeros(int(whole) - 1), [float(1 - rest), float(rest)] if rest else [1.0]))
        first, last = math.floor(mean - width), math.ceil(mean + width)
        away = np.arange(first - int(whole), last - int(whole) + 1) - float(rest)  # x − 1/r
        narrow, wide = sorted((1.0, float(width)))
        law = np.zeros(len(away))
        for step, factor in _DIFFERENCE:
            y = np.abs(away + step * wide)
            law += factor * (y + narrow * np.maximum(0.0, 1 - y / narrow) ** 3 / 3)
        return np.concatenate((np.zeros(first - 1), np.maximum(law, 0.0) / (2 * wide**2)))

    def window_variances(self, windows: Sequence[int]) -> list[float]:
        """Return Var(Y) of the participations in T rounds, for each T."""
        return [self._window_variance(window) for window in windows]

    def _window_variance(self, rounds: int) -> float:
        """Return Var(Y_T), Y_T how often a client takes part in T rounds: bounded, however large T is.

        Without jitter frac(rT)(1−frac(rT)) ≤ 1/4. With it, the strides begun by the end of a round are the
        participations by then, but for the last one, which is still to come with probability max(0, 1−v/J) if v strides
        have passed since it began. With h(v) = v + max(0, 1−v/J) and L = rT, the two ends of the window give

            Var(Y_T) = J/3 − max(0, J−L)³/(3J²) + Var[h(v) − h(frac(v+L))],

        v uniform; the second term is for windows so short that both ends may be in one stride.
        """
        length = exact(self.rate) * rounds
        late = float(exact(self.rate)) * float(self._width)  # J, cut to 1−r
        if not late:
            return float(length % 1 * (1 - length % 1))
        shift = float(length % 1)

        def apart(v: float) -> float:
            ahead = (v + shift) % 1
            return v + max(0.0, 1 - v / late) - ahead - max(0.0, 1 - ahead / late)

        # Straight between these marks, so middle and slope of each stretch suffice.
        marks = sorted({0.0, late, 1 - shift, (late - shift) % 1, 1.0})
        mean = square = 0.0
        for low, high in pairwise(marks):
            third, two_thirds = (apart(low + (high - low) * part) for part in (1 / 3, 2 / 3))
            middle, slope = (third + two_thirds) / 2, 3 * (two_thirds - third)
            mean += (high - low) * middle
            square += (high - low) * (middle**2 + slope**2 / 12)
        return late / 3 - max(0.0, late - float(length)) ** 3 / (3 * late**2) + square - mean**2


@dataclass(frozen=True, eq=False)
class MixedLaw:
    """The law of all clients' intervals together, where each client has a rate of its own.

    Attributes
    ----------
    rates : (n,) r_i; client i brings intervals in proportion to it
    of : the law of a client of a rate
    """

    rates: Floats
    of: Callable[[float], IntervalLaw]

    def interval_pmf(self) -> Floats:
        """Return P(X = x) at position x−1."""
        laws, which = self._laws
        shares, parts = np.bincount(which, self.rates), [one.interval_pmf() for one in laws]
        pmf = np.zeros(max(map(len, parts)))
        for share, part in zip(shares, parts, strict=True):
            pmf[: len(part)] += share * part
        return np.asarray(pmf / shares.sum())

    @property
    def interval_mean(self) -> float:
        """E[X] = n/k, in rounds."""
        return len(self.rates) / float(self.rates.sum())

    @property
    def interval_variance(self) -> float:
        """Var[X], in rounds²."""
        laws, which = self._laws
        return pooled_variance(self.rates, np.array([one.interval_variance for one in laws])[which])

    def window_variances(self, windows: Sequence[int]) -> list[float]:
        """Return Var(Y) of the participations in T rounds, for each T; clients' means r_i·T differ with their rates."""
        laws, which = self._laws
        within = np.array([one.window_variances(windows) for one in laws])[which].mean(axis=0)
        variances: list[float] = (within + self.rates.var() * np.array(windows) ** 2).tolist()
        return variances

    @cached_property
    def _laws(self) -> tuple[list[IntervalLaw], Ints]:
        """The law of each different rate, and (n,) which one is each client's."""
        distinct, which = np.unique(self.rates, return_inverse=True)
        return [self.of(rate) for rate in distinct.tolist()], which
