"""What the theory says of a run's policy: the law of X, and how much a client's load varies over a window."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from aoi_fl.report.runs import Run
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.markov_rates import own_table
from aoi_fl.science.rates import check_rates, equal_rates, pooled_variance
from aoi_fl.science.stride_laws import interval_law, interval_variance, window_variance

_RANDOM = ("random", "RandomSelection")
_STEADY = (None, "", "always")  # clocks on which everybody is there
_LONGEST_WAIT = 10**6  # rounds: a client that takes part more rarely has a law too long to be worked out


class OneLaw(Protocol):
    """The law of one client's intervals."""

    @property
    def interval_variance(self) -> float:
        """Var[X]."""

    def interval_pmf(self) -> NDArray[np.float64]:
        """Return P(X = x) at position x−1."""

    def window_variances(self, windows: Sequence[int]) -> list[float]:
        """Return Var(Y) of the participations in T rounds for each T."""


@dataclass(frozen=True)
class StrideLaw:
    """That of a client that takes part systematically, at a rate and with jitter J."""

    rate: float
    jitter: float

    @property
    def interval_variance(self) -> float:
        """Var[X]."""
        return interval_variance(self.rate, self.jitter)

    def interval_pmf(self) -> NDArray[np.float64]:
        """Return P(X = x) at position x−1."""
        law_ = interval_law(self.rate, self.jitter)
        pmf = np.zeros(max(law_))
        pmf[np.array(list(law_)) - 1] = list(law_.values())
        return pmf

    def window_variances(self, windows: Sequence[int]) -> list[float]:
        """Return Var(Y) of the participations in T rounds for each T."""
        return [window_variance(self.rate, window, self.jitter) for window in windows]


@dataclass(frozen=True)
class TableLaw:
    """That of a client that decides by a table of its own."""

    table: MarkovPolicy

    @property
    def interval_variance(self) -> float:
        """Var[X]."""
        return self.table.interval_variance

    def interval_pmf(self) -> NDArray[np.float64]:
        """Return P(X = x) at position x−1."""
        return np.asarray(self.table.interval_pmf())

    def window_variances(self, windows: Sequence[int]) -> list[float]:
        """Return Var(Y) of the participations in T rounds for each T, in the steady state.

        Participations form a stationary renewal process. With rate r = 1/E[X], and u_h the probability of taking part h
        rounds after doing so, Var(Y) = T r(1-r) + 2 Σ_{h=1}^{T-1} (T-h) r (u_h - r).
        """
        rate, again = 1 / self.table.interval_mean, self.table.renewals(max(windows, default=0))
        found = []
        for window in windows:
            lags = np.arange(1, window)
            variance = window * rate * (1 - rate) + 2 * rate * float((window - lags) @ (again[1:window] - rate))
            found.append(max(variance, 0.0))
        return found


@dataclass(frozen=True, eq=False)
class MixedLaw:
    """The law of all clients' intervals together, where each client has a rate of its own.

    Attributes
    ----------
    rates : (n,) r_i; client i brings intervals in proportion to it
    of : the law of a client of a rate
    """

    rates: NDArray[np.float64]
    of: Callable[[float], OneLaw]

    def interval_pmf(self) -> NDArray[np.float64]:
        """Return P(X = x) at position x−1."""
        laws = [(rate * count, one.interval_pmf()) for rate, count, one in self._groups]
        pmf = np.zeros(max(len(found) for _, found in laws))
        for share, found in laws:
            pmf[: len(found)] += share * found
        return np.asarray(pmf / self.rates.sum())

    @property
    def interval_mean(self) -> float:
        """Return E[X] = n/k."""
        return len(self.rates) / float(self.rates.sum())

    @property
    def interval_variance(self) -> float:
        """Return Var[X]."""
        found = {rate: one.interval_variance for rate, _, one in self._groups}
        return pooled_variance(self.rates, np.array([found[rate] for rate in self.rates.tolist()]))

    def window_deviation(self, windows: Sequence[int]) -> list[float]:
        """Return √Var(Y)/T for each window T; where rates differ, so do the clients' means r_i·T."""
        within = np.zeros(len(windows))
        for _, count, one in self._groups:
            within += np.array(one.window_variances(windows)) * count / len(self.rates)
        spread = np.sqrt(within / np.array(windows) ** 2 + self.rates.var())
        return [float(value) for value in spread]

    @cached_property
    def _groups(self) -> list[tuple[float, int, OneLaw]]:
        distinct, counts = np.unique(self.rates, return_counts=True)
        return [(rate, count, self.of(rate)) for rate, count in zip(distinct.tolist(), counts.tolist(), strict=True)]


def law(run: Run) -> MarkovPolicy | MixedLaw | None:
    """Return what has the law of X that the run should show; None for a policy without such a law.

    Random selection of k out of n is geometric in X with rate k/n (Javani & Wang 2024, eq. 5), for one client the same
    as a table that has k/n at every age. Rates of the clients' own are in the record when the run is over; where
    absence or dropout is learned, tables and strides follow what was learned, and have no law here. Nor has a run in
    which rates have changed, as some clients left or never came, or in which who is chosen may not count: with
    over-selection, or by a clock on which devices come and go.
    """
    policy = run.policy
    clients = policy.get("clients") or run.size
    per_round: Any = policy.get("per_round") or run.config.get("clients-per-round")
    rates, dropout = policy.get("rates", "equal"), float(policy.get("dropout") or 0)
    try:
        if float(run.config.get("over-selection") or 1) > 1 or run.config.get("clock") not in _STEADY:
            return None
        if policy.get("absence", "ignored") != "ignored" or policy.get("adaptive_dropout"):
            return None
        if policy.get("probabilities") and rates != "equal":
            each = _checked(rates, per_round)
            return MixedLaw(each, lambda rate: TableLaw(_own(rate, dropout)))
        if policy.get("probabilities"):
            table = tuple(float(p) for p in policy["probabilities"])
            return MarkovPolicy(table, clients, per_round, str(policy.get("kind")), dropout)
        if policy.get("kind") in _RANDOM:
            return MarkovPolicy.uniform(clients, per_round, 0)
        if policy.get("kind") == "systematic":
            jitter = float(policy.get("jitter") or 0)
            each = equal_rates(clients, per_round) if rates == "equal" else _checked(rates, per_round)
            return MixedLaw(each, lambda rate: StrideLaw(rate, jitter))
    except (ConfigError, TypeError, ValueError):  # what a ledger says of a policy need not make sense: then no theory
        return None
    return None


def _checked(rates: Any, per_round: float) -> NDArray[np.float64]:
    """Return rates by which k take part in a round, so that they are those of the whole run, and none too rare."""
    found = np.asarray(rates, dtype=np.float64)
    check_rates(found)
    if abs(found.sum() - per_round) > 1e-3 or found.min() * _LONGEST_WAIT < 1:
        raise ConfigError(
            "rates", None, "those of k clients a round, and not too small to be shown", "Correct the rates."
        )
    return found


def _own(rate: float, dropout: float) -> MarkovPolicy:
    """Return the table of a client of a rate; n and k, which its law does not depend on, are 1."""
    return MarkovPolicy(own_table(rate, None, dropout), 1, 1, "own", dropout)


def longest_wait(policy: MarkovPolicy | MixedLaw) -> float:
    """Return the mean interval of whoever takes part least; a run of few of them shows short intervals only."""
    return policy.interval_mean if isinstance(policy, MarkovPolicy) else 1 / float(policy.rates.min())


def window_deviation(policy: MarkovPolicy | MixedLaw, windows: Sequence[int]) -> list[float]:
    """Return √Var(Y)/T for each window T, Y the number of rounds a client takes part in out of T, in the steady state.

    At every age the same probability makes it the binomial √(r(1-r)/T).

    Examples
    --------
    >>> [round(v, 12) for v in window_deviation(MarkovPolicy.uniform(4, 2, 0), [1, 4])]
    [0.5, 0.25]
    """
    if isinstance(policy, MixedLaw):
        return policy.window_deviation(windows)
    return [math.sqrt(v) / t for t, v in zip(windows, TableLaw(policy).window_variances(windows), strict=True)]
