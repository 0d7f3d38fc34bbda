"""The decentralised Markov policy where each client has a rate of its own, and the optimal table that belongs to it.

A client of rate r has the table of least Var[X] for E[X] = 1/r (:func:`aoi_fl.science.tables.optimal_steps`): f(1−f)
with f = frac(1/r), where its largest age m is not in the way. Arrays have shape (n,).
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from aoi_fl.science import tables
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.interval_law import MixedLaw
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.rates import Floats, check_rates, exact
from aoi_fl.science.rule import AgeRule, IntervalLaw

LONGEST = 10**6  # ages in a table


@lru_cache(maxsize=1024)
def own_table(rate: float, max_age: int | None = None, dropout: float = 0.0) -> tables.Probabilities:
    """Return the table p_0 … p_m by which a client of a rate decides on its own.

    A dropout estimated while a run goes on can exceed 1−r, all that a table can make up for; more is cut to that.

    Raises ConfigError where it would have more than a million ages: of a rate below 10⁻⁶, or with so large a max_age.

    >>> own_table(0.4), own_table(0.4, 1), own_table(0.4, 1, 0.7)
    ((0.0, 0.5, 1.0), (0.0, 0.6666666666666666), (1.0, 1.0))
    """
    fraction = exact(rate)
    if tables.decimal(dropout) >= 1 - fraction:
        first, at, later = 0, 1.0, 1.0
    else:
        first, at, later = tables.optimal_steps(1 / fraction, max_age, dropout)
    oldest = first + 1 if max_age is None else max_age
    if oldest > LONGEST:
        remedy = f"raise the rate to at least {1 / LONGEST:g}, or choose systematic participation, which has no table"
        raise ConfigError(
            "rate",
            rate,
            f"larger: its table would have {oldest} ages, and at most {LONGEST} are possible",
            f"{remedy if max_age is None else f'Lower max-age {max_age}'}.",
        )
    return (0.0,) * first + (at,) + (later,) * (oldest - first)


def largest_rate(dropout: float) -> float:
    """Return 1−d, the largest rate at which clients take part of whom a share d gets lost.

    >>> largest_rate(0.7)
    0.3
    """
    return float(1 - tables.decimal(dropout))


@dataclass(frozen=True, eq=False)
class RatedMarkovPolicy(AgeRule):
    """The optimal Markov tables of n clients with rates of their own.

    Attributes
    ----------
    rates : (n,) r_i in (0, 1]
    max_age : m, the largest age that a table tells apart; None for each client's own, as large as its table needs
    dropout : d, probability that a willing client can't be reached; the rates are of what arrives

    Raises
    ------
    ConfigError
        A rate is out of range, or above 1−d, naming the client.

    Examples
    --------
    >>> policy = RatedMarkovPolicy(np.array([0.4, 0.15]))
    >>> policy.table(0), policy.interval_variances().round(6).tolist()
    ((0.0, 0.5, 1.0), [0.25, 0.222222])
    """

    rates: Floats
    max_age: int | None = None
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_rates(self.rates)
        tables.check_dropout(self.dropout)
        if self.max_age is not None and self.max_age < 0:
            raise ConfigError("max-age", self.max_age, "a whole number from 0 on", "Raise it.")
        reached = largest_rate(self.dropout)
        above = np.flatnonzero(self.rates > reached)
        if above.size:
            raise ConfigError(
                f"rate of client {above[0]}",
                self.rates[above[0]],
                f"at most 1 − dropout = {reached:g}",
                "Lower the rate, or dropout.",
            )

    @property
    def clients(self) -> int:
        """Return n."""
        return len(self.rates)

    def table(self, client: int) -> tables.Probabilities:
        """Return the client's :func:`own_table`."""
        return own_table(float(self.rates[client]), self.max_age, self.dropout)

    def willingness(self, ages: NDArray[np.int64]) -> Floats:
        """Return (n,) the probability with which each client takes part at its age, if it can be reached."""
        first, at, later = self._steps
        return np.where(ages < first, 0.0, np.where(ages == first, at, later))

    def first_age(self, round_: int, u: Floats) -> NDArray[np.int64]:
        """Turn (n,) uniform numbers in [0, 1) into ages of each client's stationary law P(A = a) = P(X > a)/E[X]."""
        first, at, later = self._hazards
        level = u * self.interval_means()
        beyond = level - (first + 1)  # the law is flat up to age j, and geometric after it
        left = np.clip(1 - beyond * later / np.where(at < 1, 1 - at, 1.0), 1e-300, 1.0)
        with np.errstate(divide="ignore"):
            tail = np.floor(np.log(left) / np.log1p(-later))
        return np.where(beyond < 0, np.floor(level), first + 1 + tail).astype(np.int64)

    def long_run_rates(self) -> Floats:
        """Return (n,) participations a round."""
        return self.rates

    def law(self, client: int | None = None) -> IntervalLaw:
        """Return the law of X of a client; None: of all clients' intervals together."""
        return MixedLaw(self.rates, self._law_of) if client is None else self._law_of(float(self.rates[client]))

    def _law_of(self, rate: float) -> IntervalLaw:
        return MarkovPolicy(own_table(rate, self.max_age, self.dropout), 1, 1, "own", self.dropout)

    def interval_means(self) -> Floats:
        """Return (n,) E[X_i] = 1/r_i, in rounds."""
        first, at, later = self._hazards
        means: Floats = first + 1 + (1 - at) / later
        return means

    def interval_variances(self) -> Floats:
        """Return (n,) Var[X_i], in rounds²: beyond age j, X is geometric."""
        _, at, later = self._hazards
        variances: Floats = (1 - at) * (1 - later + at) / later**2
        return variances

    @cached_property
    def _steps(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Return (n,) each of j, p_j and p at later ages."""
        distinct, which = np.unique(self.rates, return_inverse=True)
        steps = [tables.optimal_steps(1 / exact(rate), self.max_age, self.dropout) for rate in distinct.tolist()]
        first, at, later = zip(*steps, strict=True)
        return np.array(first, dtype=np.int64)[which], np.array(at)[which], np.array(later)[which]

    @property
    def _hazards(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        first, at, later = self._steps
        return first, at * (1 - self.dropout), later * (1 - self.dropout)
