"""The decentralised Markov policy: each client takes part with a probability that depends on its own age alone.

A client of age a (rounds missed, see :mod:`aoi_fl.science.age`) takes part with probability p[min(a, m)]. The policies
here give every client the mean wait E[X] = n/k; they differ in Var[X], the load metric's variance.

References
----------
[1] A. Javani, Z. Wang, "Load Balancing in Federated Learning", Globecom 2024.
[2] A. Javani, Z. Wang, "Balancing Client Participation in Federated Learning Using AoI", 2025.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Self

import numpy as np

from aoi_fl.science import age, tables
from aoi_fl.science.absence import absent_steps, absent_table, achievable
from aoi_fl.science.dropout import largest_dropout
from aoi_fl.science.errors import ConfigError, check_whole
from aoi_fl.science.interval_law import MixedLaw
from aoi_fl.science.names import usual_max_age
from aoi_fl.science.presence import Presence
from aoi_fl.science.rates import check_rates, exact, largest_rate, own_table
from aoi_fl.science.rule import Clocks, IntervalLaw, ParticipationRule, Terms
from aoi_fl.science.types import Floats, Ints, Mask

_TAIL = 1e-12  # the probability of waits beyond those that a law lists


@dataclass(frozen=True)
class MarkovPolicy(ParticipationRule):
    """A table of participation probabilities, and its effect on a client.

    With a ``dropout`` d > 0 a client decides by ``probabilities`` and then counts with probability 1−d. All properties
    describe the thinned process, with hazards (1−d)·p_a.

    Attributes
    ----------
    probabilities : p_0 … p_m
    clients : n
    per_round : k, clients wanted in a round, in the mean
    kind : "optimal", "increasing", "uniform", "rated", or a name for a table of one's own
    dropout : d, probability that a willing client can't be reached
    rates : (n,) r_i in (0, 1], where each client has the optimal table of its own rate; none: not known yet; None: all
        share one table
    presence : the clients' known availability, for which own tables make up; None: all are always available

    Raises ConfigError, from every constructor, unless 1 ≤ k ≤ n, m ≥ 0, α > 0, 0 ≤ d ≤ 1−k/n, all sizes whole numbers.

    >>> policy = MarkovPolicy.optimal(100, 15, 10)
    >>> [round(p, 3) for p in policy.probabilities]
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.333, 1.0, 1.0, 1.0, 1.0, 1.0]
    >>> round(policy.interval_mean, 6), round(policy.interval_variance, 6)
    (6.666667, 0.222222)
    """

    probabilities: tuple[float, ...]
    clients: int
    per_round: int
    kind: str
    dropout: float = 0.0
    rates: Floats | None = None
    presence: Presence | None = None

    def __post_init__(self) -> None:
        if self.rates is not None:
            check_rates(self.rates)
        else:
            tables.check_dropout(self.dropout)
            check_sizes(self.clients, self.per_round, len(self.probabilities) - 1)
            age.checked(self.hazards)

    @classmethod
    def optimal(cls, clients: int, per_round: int, max_age: int | None = None, dropout: float = 0.0) -> "MarkovPolicy":
        """Return the table of least Var[X] for which E[X] = n/k: :func:`aoi_fl.science.tables.optimal`.

        ``max_age`` None is at least ⌊n/k⌋: :func:`aoi_fl.science.names.usual_max_age`. Var[X] is (n−mk)(n−(m+1)k)/k²
        where m < ⌊n/k⌋, else r(k−r)/k² with r = n mod k. Raises ConfigError also if d > 1−k/n.
        """
        table = tables.optimal(*_mean_and_age(clients, per_round, max_age), dropout)
        return cls(table, clients, per_round, "optimal", float(dropout))

    @classmethod
    def increasing(
        cls, clients: int, per_round: int, max_age: int | None = None, exponent: float = 1.0
    ) -> "MarkovPolicy":
        """Return the policy of rising p_a, E[X] = n/k: :func:`aoi_fl.science.tables.increasing`."""
        table = tables.increasing(*_mean_and_age(clients, per_round, max_age), exponent)
        return cls(table, clients, per_round, "increasing")

    @classmethod
    def uniform(cls, clients: int, per_round: int, max_age: int) -> "MarkovPolicy":
        """Return p_a = k/n at every age: memoryless, so X is geometric with variance n(n−k)/k² ([1], eqs. (5)–(7))."""
        check_sizes(clients, per_round, max_age)
        return cls((per_round / clients,) * (max_age + 1), clients, per_round, "uniform")

    @classmethod
    def rated(cls, rates: Floats, dropout: float = 0.0) -> "MarkovPolicy":
        """Return the policy of clients with rates of their own: :func:`aoi_fl.science.rates.own_table`.

        A client of rate r has the table of least Var[X] for E[X] = 1/r: f(1−f) with f = frac(1/r).
        Raises ConfigError, naming the client, for a rate that is out of range or above 1−d.

        >>> policy = MarkovPolicy.rated(np.array([0.4, 0.15]))
        >>> policy.table(0), policy.law().interval_mean
        ((0.0, 0.5, 1.0), 3.6363636363636362)
        """
        tables.check_dropout(dropout)
        check_rates(rates, most=largest_rate(dropout))
        return cls((), len(rates), max(round(float(rates.sum())), 1), "rated", dropout, rates)

    @classmethod
    def learning(cls, rates: Floats) -> "MarkovPolicy":
        """Return the policy of these target rates that makes up for availability; raises ConfigError for a bad rate."""
        return replace(cls.rated(rates), presence=Presence().reach(len(rates)))

    def table(self, client: int) -> tables.Probabilities:
        """Return a client's table."""
        if self.rates is None:
            return self.probabilities
        return own_table(float(self.rates[client]), self.dropout)

    @property
    def excess(self) -> str:
        """A warning where the largest age of an optimal table is too small for the least Var[X]; else empty."""
        if self.kind != "optimal" or self.dropout or self.max_age >= self.clients // self.per_round:
            return ""
        variance, least = (
            table.interval_variance for table in (self, MarkovPolicy.optimal(self.clients, self.per_round))
        )
        if variance - least < 1e-9:
            return ""
        return (
            f"max-age {self.max_age} is below n/k, {self.clients / self.per_round:g}: Var[X] is {variance:.4g}, and "
            f"{least:.4g} with max-age auto."
        )

    @property
    def max_age(self) -> int:
        """Return m, the largest age in the table."""
        return len(self.probabilities) - 1

    @property
    def hazards(self) -> Floats:
        """Return (m+1,) probabilities (1−d)·p_a of taking part in fact."""
        return np.asarray(self.probabilities, dtype=np.float64) * (1 - self.dropout)

    def participates(self, clocks: Clocks, round_: int, u: Floats) -> Mask:
        """Flip the coin of each client's age."""
        ages, known = clocks.ages(round_), self.presence
        if self.rates is None:
            chances = age.hazards(self.probabilities, ages)
        else:
            first, at = self._steps if known is None else absent_steps(self.rates, known.share, known.returning)
            chances = np.where(ages < first, 0.0, np.where(ages == first, at, 1.0))
        return u < chances

    def first_age(self, round_: int, u: Floats) -> Ints:
        """Turn (n,) uniform numbers in [0, 1) into ages of each client's stationary law P(A = a) = P(X > a)/E[X]."""
        if self.rates is None:
            return age.first_age(self.hazards, u)
        first, at = self._steps
        at, later = at * (1 - self.dropout), 1 - self.dropout
        level = u / np.asarray(self.rates)
        beyond = level - (first + 1)  # the law is flat up to age j, and geometric after it
        left = np.clip(1 - beyond * later / np.where(at < 1, 1 - at, 1.0), 1e-300, 1.0)
        with np.errstate(divide="ignore"):
            tail = np.floor(np.log(left) / np.log1p(-later))
        return np.where(beyond < 0, np.floor(level), first + 1 + tail).astype(np.int64)

    def next_round(self, clocks: Clocks, round_: int, u: Floats) -> Ints:
        """Draw (n,) the rounds, this one or later, that clients take part in next."""
        ages = clocks.ages(round_)
        return round_ - 1 - ages + age.interval_given_age(self.probabilities, ages, u)

    @classmethod
    @lru_cache(maxsize=64)  # most clients of a process have the same table
    def from_message(cls, terms: Terms) -> Self:
        """Return the rule of one client with these terms."""
        return cls(terms.table, 1, 1, "own")

    def to_message(self, client: int | None) -> Terms | None:
        """Return a client's terms; with None those of all clients, or None where they differ.

        Raises ConfigError if the client's table would have more than a million ages.
        """
        if self.rates is None:
            return Terms(self.probabilities)
        if client is None:
            return None
        if not len(self.rates):
            return Terms()
        if self.presence is None:
            return Terms(self.table(client))
        return Terms(absent_table(float(self.rates[client]), *self.presence.reach(len(self.rates)).of(client)))

    def reissue(self, rates: Floats, round_: int, here: Mask) -> Self:
        """Return the policy for other rates of each client's own; raise ConfigError for a rate out of range."""
        return replace(self, rates=rates)

    def with_dropout(self, dropout: float) -> Self:
        """Return the optimal policy that makes up for another probability that a willing client's work is lost.

        The table that clients share makes up for :func:`aoi_fl.science.dropout.largest_dropout` at most.
        """
        cut = min(dropout, largest_dropout(self.clients, self.per_round))
        table = tables.optimal(Fraction(self.clients, self.per_round), self.max_age, cut)
        return replace(self, probabilities=table, dropout=cut if self.rates is None else dropout)

    def observe(self, available: Mask, round_: int) -> Self:
        """Learn from (n,) the clients that were available in a round."""
        if self.presence is not None:
            self.presence.note(available)
        return self

    def long_run_rates(self) -> Floats:
        """Return (n,) participations a round, 1/E[X]."""
        if self.rates is None:
            return np.full(self.clients, 1 / self.interval_mean)
        return self.rates if self.presence is None else achievable(self.rates, self.presence.share)

    def law(self) -> IntervalLaw:
        """Return the law of X, of all clients' intervals together."""
        if self.rates is None:
            return self
        dropout = self.dropout
        return MixedLaw(self.rates, lambda rate: MarkovPolicy(own_table(rate, dropout), 1, 1, "own", dropout))

    @cached_property
    def _steps(self) -> tuple[Ints, Floats]:
        """Return (n,) each of j and p_j; p is 1 at later ages."""
        distinct, which = np.unique(np.asarray(self.rates), return_inverse=True)
        steps = [tables.optimal_steps(1 / exact(rate), None, self.dropout) for rate in distinct.tolist()]
        first, at, _ = zip(*steps, strict=True)
        return np.array(first, dtype=np.int64)[which], np.array(at)[which]

    @cached_property
    def survival(self) -> Floats:
        """Return P(X > a) for a = 0 … m, shape (m+1,)."""
        return age.survival(self.hazards)

    @property
    def stationary(self) -> Floats:
        """Return the (m+1,) law of min(age, m) at the start of a round ([1], eqs. (12)–(14); [2], eqs. (5)–(8)).

        In [2]'s eq. (6) the product should run to i−1, as in [1]'s eq. (13).
        """
        return age.stationary(self.hazards)

    @property
    def interval_mean(self) -> float:
        """Return E[X] in rounds ([1], eq. (17)); n/k for the tables constructed here."""
        return float(self.survival[:-1].sum() + self.survival[-1] / self.hazards[-1])

    @property
    def interval_variance(self) -> float:
        """Return Var[X] in rounds², as a sum of squares about the mean: no difference of large numbers."""
        m, mean, rare = self.max_age, self.interval_mean, float(self.hazards[-1])
        spread = (np.arange(1, m + 1) - mean) ** 2
        head = float(self.survival[:-1] * self.hazards[:-1] @ spread)
        return head + float(self.survival[-1]) * ((1 - rare) / rare**2 + (m + 1 / rare - mean) ** 2)

    def interval_pmf(self) -> Floats:
        """Return P(X = x) at position x−1, up to the first x with P(X > x) < 10⁻¹²."""
        short = np.flatnonzero(self.survival < _TAIL)
        if short.size:
            return (self.survival * self.hazards)[: short[0]]
        rare, reached = float(self.hazards[-1]), float(self.survival[-1])
        more = 1 if rare == 1 else math.floor(math.log(_TAIL / reached) / math.log1p(-rare)) + 1
        geometric = rare * (1 - rare) ** np.arange(more)
        return np.concatenate(((self.survival * self.hazards)[:-1], reached * geometric))

    def renewals(self, rounds: int) -> Floats:
        """Return u_0 … u_R, the probability of taking part h rounds after doing so: u_h = Σ_x P(X = x) u_(h−x)."""
        pmf = self.interval_pmf()[:rounds]
        pmf = np.pad(pmf, (0, rounds - len(pmf)))
        again = np.ones(rounds + 1)
        for h in range(1, rounds + 1):
            again[h] = pmf[:h] @ again[:h][::-1]
        return again

    def window_variances(self, windows: Sequence[int]) -> list[float]:
        """Return Var(Y) of the participations in T rounds for each T, in the steady state.

        With r = 1/E[X], and u_h the probability of taking part h rounds after doing so, Var(Y) = T r(1-r) +
        2 Σ_{h=1}^{T-1} (T-h) r (u_h - r).
        """
        rate, lengths = 1 / self.interval_mean, np.asarray(windows, dtype=np.int64)
        excess = self.renewals(int(lengths.max(initial=0))) - rate
        excess[0] = 0.0
        sums = np.cumsum(np.cumsum(excess))[lengths - 1]
        variances: list[float] = np.maximum(lengths * rate * (1 - rate) + 2 * rate * sums, 0.0).tolist()
        return variances


def _mean_and_age(clients: int, per_round: int, max_age: int | None) -> tuple[Fraction, int]:
    """Return n/k, and m or the usual one; raise ConfigError for sizes out of range."""
    check_sizes(clients, per_round, max_age or 0)
    return Fraction(clients, per_round), usual_max_age(clients, per_round) if max_age is None else max_age


def check_sizes(clients: int, per_round: int, max_age: int) -> None:
    """Raise ConfigError unless n, k and m are whole numbers in their ranges."""
    for name, value, least in (("clients", clients, 1), ("per-round", per_round, 1), ("max-age", max_age, 0)):
        check_whole(name, value, least)
    if per_round > clients:
        raise ConfigError("per-round", per_round, f"at most clients, {clients}", "Lower it.")
