"""What the theory says of a run's policy: the law of X, and how much a client's load varies over a window."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.report.runs import Run
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.rates import check_rates, equal_rates, pooled_variance
from aoi_fl.science.stride_laws import interval_law, interval_variance, window_variance

_RANDOM = ("random", "RandomSelection")


@dataclass(frozen=True, eq=False)
class SystematicLaw:
    """The law of all clients' intervals together under systematic participation.

    Attributes
    ----------
    rates : (n,) r_i; client i brings intervals in proportion to it
    jitter : J
    """

    rates: NDArray[np.float64]
    jitter: float

    def interval_pmf(self) -> NDArray[np.float64]:
        """Return P(X = x) at position x−1."""
        laws = [(rate * count, interval_law(rate, self.jitter)) for rate, count in self._groups]
        pmf = np.zeros(max(max(found) for _, found in laws))
        for share, found in laws:
            pmf[np.array(list(found)) - 1] += share * np.array(list(found.values()))
        return np.asarray(pmf / self.rates.sum())

    @property
    def interval_mean(self) -> float:
        """Return E[X] = n/k."""
        return len(self.rates) / float(self.rates.sum())

    @property
    def interval_variance(self) -> float:
        """Return Var[X]."""
        return pooled_variance(self.rates, np.array([interval_variance(r, self.jitter) for r in self.rates.tolist()]))

    def window_deviation(self, windows: Sequence[int]) -> list[float]:
        """Return √Var(Y)/T for each window T; where rates differ, so do the clients' means r_i·T."""
        between = float(self.rates.var())
        return [float(np.sqrt(self._mean_variance(window) / window**2 + between)) for window in windows]

    def _mean_variance(self, window: int) -> float:
        variances = (count * window_variance(rate, window, self.jitter) for rate, count in self._groups)
        return sum(variances) / len(self.rates)

    @property
    def _groups(self) -> list[tuple[float, int]]:
        distinct, counts = np.unique(self.rates, return_counts=True)
        return list(zip(distinct.tolist(), counts.tolist(), strict=True))


def law(run: Run) -> MarkovPolicy | SystematicLaw | None:
    """Return what has the law of X that the run should show; None for a policy without such a law.

    Random selection of k out of n is geometric in X with rate k/n (Javani & Wang 2024, eq. 5), for one client the same
    as a table that has k/n at every age. Rates in proportion to size are not in the record, and have no law here; nor
    have tables of the clients' own.
    """
    policy = run.policy
    clients = policy.get("clients") or run.size
    per_round: Any = policy.get("per_round") or run.config.get("clients-per-round")
    try:
        if policy.get("probabilities") and policy.get("rates", "equal") != "equal":
            return None
        if policy.get("probabilities"):
            table = tuple(float(p) for p in policy["probabilities"])
            return MarkovPolicy(table, clients, per_round, str(policy.get("kind")), float(policy.get("dropout") or 0))
        if policy.get("kind") in _RANDOM:
            return MarkovPolicy.uniform(clients, per_round, 0)
        if policy.get("kind") == "systematic" and policy.get("rates") != "size":
            rates = policy.get("rates", "equal")
            each = equal_rates(clients, per_round) if rates == "equal" else np.asarray(rates, dtype=np.float64)
            check_rates(each)
            return SystematicLaw(each, float(policy.get("jitter") or 0))
    except (ConfigError, TypeError, ValueError):  # what a ledger says of a policy need not make sense: then no theory
        return None
    return None


def window_deviation(policy: MarkovPolicy | SystematicLaw, windows: Sequence[int]) -> list[float]:
    """Return √Var(Y)/T for each window T, Y the number of rounds a client takes part in out of T, in the steady state.

    Participations form a stationary renewal process. With rate r = 1/E[X], and u_h the probability of taking part h
    rounds after doing so, Var(Y) = T r(1-r) + 2 Σ_{h=1}^{T-1} (T-h) r (u_h - r).
    At every age the same probability makes it the binomial √(r(1-r)/T).

    Examples
    --------
    >>> [round(v, 12) for v in window_deviation(MarkovPolicy.uniform(4, 2, 0), [1, 4])]
    [0.5, 0.25]
    """
    if isinstance(policy, SystematicLaw):
        return policy.window_deviation(windows)
    longest = max(windows, default=0)
    rate, again = 1 / policy.interval_mean, policy.renewals(longest)
    result = []
    for window in windows:
        lags = np.arange(1, window)
        variance = window * rate * (1 - rate) + 2 * rate * float((window - lags) @ (again[1:window] - rate))
        result.append(float(np.sqrt(max(variance, 0.0))) / window)
    return result
