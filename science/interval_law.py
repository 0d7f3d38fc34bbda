"""The law of X under systematic participation, and of clients with rates of their own."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from aoi_fl.science.rates import pooled_variance
from aoi_fl.science.rule import IntervalLaw
from aoi_fl.science.stride_laws import interval_law, interval_variance, window_variance
from aoi_fl.science.types import Floats


@dataclass(frozen=True)
class StrideLaw:
    """The law of a client that takes part systematically, at a rate and with jitter J."""

    rate: float
    jitter: float = 0.0

    @property
    def interval_mean(self) -> float:
        """E[X], in rounds."""
        return 1 / self.rate

    longest_mean = interval_mean

    @property
    def interval_variance(self) -> float:
        """Var[X], in rounds²."""
        return interval_variance(self.rate, self.jitter)

    def interval_pmf(self) -> Floats:
        """Return P(X = x) at position x−1."""
        law = interval_law(self.rate, self.jitter)
        pmf = np.zeros(max(law))
        pmf[np.array(list(law)) - 1] = list(law.values())
        return pmf

    def window_variances(self, windows: Sequence[int]) -> list[float]:
        """Return Var(Y) of the participations in T rounds, for each T."""
        return [window_variance(self.rate, window, self.jitter) for window in windows]


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
        laws = [(rate * count, one.interval_pmf()) for rate, count, one in self._groups]
        pmf = np.zeros(max(len(found) for _, found in laws))
        for share, found in laws:
            pmf[: len(found)] += share * found
        return np.asarray(pmf / self.rates.sum())

    @property
    def interval_mean(self) -> float:
        """E[X] = n/k, in rounds."""
        return len(self.rates) / float(self.rates.sum())

    @property
    def interval_variance(self) -> float:
        """Var[X], in rounds²."""
        found = {rate: one.interval_variance for rate, _, one in self._groups}
        return pooled_variance(self.rates, np.array([found[rate] for rate in self.rates.tolist()]))

    @property
    def longest_mean(self) -> float:
        """E[X] of the client that takes part least, in rounds."""
        return 1 / float(self.rates.min())

    def window_variances(self, windows: Sequence[int]) -> list[float]:
        """Return Var(Y) of the participations in T rounds, for each T; clients' means r_i·T differ with their rates."""
        within = np.zeros(len(windows))
        for _, count, one in self._groups:
            within += np.array(one.window_variances(windows)) * count / len(self.rates)
        spread: Floats = within + self.rates.var() * np.array(windows) ** 2
        return [float(value) for value in spread]

    @cached_property
    def _groups(self) -> list[tuple[float, int, IntervalLaw]]:
        distinct, counts = np.unique(self.rates, return_counts=True)
        return [(rate, count, self.of(rate)) for rate, count in zip(distinct.tolist(), counts.tolist(), strict=True)]


def window_deviation(law: IntervalLaw, windows: Sequence[int]) -> list[float]:
    """Return √Var(Y)/T for each window T, Y the number of rounds a client takes part in out of T, in the steady state.

    At every age the same probability makes it the binomial √(r(1−r)/T).
    """
    return [math.sqrt(v) / t for t, v in zip(windows, law.window_variances(windows), strict=True)]
