"""Age of information of a client, and the decisions that follow from it.

Age is the number of rounds missed since the last participation, at the start of a round and before its decision
(Javani & Wang 2024, eq. (4)). A *table* p_0 … p_m holds the probability of taking part at each age; ages above m use
p_m. The wait X between two participations is the age at the second one, plus 1.

References
----------
A. Javani, Z. Wang, "Load Balancing in Federated Learning", Globecom 2024.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from aoi_fl.science.errors import ConfigError
from aoi_fl.science.types import Floats, Ints

TableLike: TypeAlias = Sequence[float] | Floats

_RAREST = 1e-15  # a smaller p_m means waits that no longer fit an int64
_CERTAIN = 40.0  # the hazard of p = 1: more than −ln(1−u) of any u below 1


def checked(table: TableLike) -> Floats:
    """Return a table as an array.

    Raises ConfigError if it is empty, an entry is no probability, or the last one is below 1e-15.
    """
    array = np.asarray(table, dtype=np.float64)
    if array.ndim != 1 or not array.size:
        allowed = "a list p_0 … p_m of one number or more"
        raise ConfigError("probabilities", f"of shape {array.shape}", allowed, "Give a list of numbers.")
    wrong = np.flatnonzero(~((array >= 0) & (array <= 1)))
    if wrong.size:
        age_ = wrong[0]
        raise ConfigError("probabilities", array[age_], f"from 0 to 1 at age {age_}", "Correct this probability.")
    if array[-1] < _RAREST:
        allowed = f"at least {_RAREST} at the largest age, because the client would never participate"
        raise ConfigError("probabilities", array[-1], allowed, "Raise the last probability.")
    return array


def hazards(table: TableLike, ages: Ints) -> Floats:
    """Return the probability p[min(age, m)] of taking part, for ages of any shape; at most 16 bytes a client.

    >>> hazards([0.0, 0.5], np.array([0, 1, 9])).tolist()
    [0.0, 0.5, 0.5]
    """
    array = np.asarray(table, dtype=np.float64)
    return array[np.minimum(ages, len(array) - 1)]


def survival(table: TableLike) -> Floats:
    """Return P(X > a) for a = 0 … m, shape (m+1,): the product of 1−p_j over j < a (eq. (13)'s numerator).

    >>> survival([0.0, 0.5, 1.0]).tolist()
    [1.0, 1.0, 0.5]
    """
    return np.concatenate(([1.0], np.cumprod(1 - checked(table)[:-1])))


def stationary(table: TableLike) -> Floats:
    """Return the (m+1,) law of min(age, m) at the start of a round."""
    weights = survival(table)
    weights[-1] /= np.asarray(table)[-1]
    law: Floats = weights / weights.sum()
    return law


def first_age(table: TableLike, u: Floats) -> Ints:
    """Turn uniform numbers in [0, 1) into ages of the stationary law P(A = a) = P(X > a)/E[X].

    Ages are unbounded: state m of eqs. (12)–(14) becomes m, m+1, …, a geometric tail. A population that starts from
    this law has no transient. At the peak it takes at most 34 bytes a client, the ages included.

    >>> first_age([0.0, 0.5], np.array([0.2, 0.9])).tolist()
    [0, 3]
    """
    above = survival(table)
    rare = float(np.asarray(table)[-1])
    tail = above[-1] / rare  # the weight of all ages from m on
    below = np.cumsum(above[:-1])
    mean = (below[-1] if below.size else 0.0) + tail
    ages: Ints = np.searchsorted(below, u * mean, side="right")
    if tail > 0 and rare < 1:
        # P(A ≥ m+i) is (1−p_m)^i times the tail's weight; find the last i for which it still exceeds what u leaves.
        left = np.minimum((1 - u) * mean / tail, 1.0)
        ages = ages + np.where(ages == below.size, np.floor(np.log(left) / np.log1p(-rare)), 0).astype(np.int64)
    return ages


def interval_given_age(table: TableLike, ages: Ints, u: Floats) -> Ints:
    """Turn (n,) uniform numbers in [0, 1) into waits X, given that X exceeds the age.

    The answer is the smallest x > age with 1 − ∏(1 − p_j) > u over age ≤ j < x, solved as Σ −ln(1−p_j) > −ln(1−u) by
    one binary search a client. So it has the law of decisions with p[min(j, m)] in every round. At the peak it takes at
    most 74 bytes a client, the waits included.

    >>> interval_given_age([0.0, 0.5, 1.0], np.array([0, 0, 1, 7]), np.array([0.2, 0.7, 0.2, 0.9])).tolist()
    [2, 3, 2, 8]
    """
    array = checked(table)
    m = array.size - 1
    rates = np.full(m + 1, _CERTAIN)  # integrated hazard of each age
    rates[array < 1] = -np.log1p(-array[array < 1])
    reached = np.concatenate(([0.0], np.cumsum(rates[:-1])))  # of ages 0 … a−1
    goal = -np.log1p(-u)
    level = reached[np.minimum(ages, m)] + goal
    waits = np.searchsorted(reached, level, side="right")
    # Above m the hazard is constant, so the rest of the goal gives the rounds.
    rest = np.where(ages >= m, goal, np.maximum(level - reached[m], 0.0))
    beyond = np.maximum(ages, m) + 1 + np.floor(rest / rates[m]).astype(np.int64)
    return np.where(waits > m, beyond, waits)


@dataclass(frozen=True)
class ClientAge:
    """The round numbers from which a client's age follows.

    Attributes
    ----------
    last : the last round it took part in; at first a virtual one, 0 or less
    before : the one before that, for the answer to a repeated round; None if unknown
    reserved : the announced next round; None without a reservation
    forced : whether the server forced the last participation
    """

    last: int
    before: int | None = None
    reserved: int | None = None
    forced: bool = False

    def last_before(self, round_: int) -> int:
        """Return the last participation before a round; in a repeated one, up to ``last``, that of that time.

        Where ``before`` is unknown or too recent it is the round before this one.
        """
        if self.last < round_:
            return self.last
        return self.before if self.before is not None and self.before < round_ else round_ - 1

    def age(self, round_: int) -> int:
        """Return the age at the start of a round, never negative, from :meth:`last_before`.

        >>> [ClientAge(last=7, before=4).age(round_) for round_ in (3, 4, 5, 6, 7, 8)], ClientAge(last=7).age(7)
        ([0, 0, 0, 1, 2, 0], 0)
        """
        return round_ - 1 - self.last_before(round_)

    def took_part(self, round_: int, forced: bool = False) -> "ClientAge":
        """Return the state after an update of a round; a round up to ``last`` is a repetition and changes nothing.

        >>> state = ClientAge(last=7, before=4)
        >>> [state.took_part(round_) == state for round_ in (4, 5, 8)]
        [True, True, False]
        """
        return self if round_ <= self.last else ClientAge(last=round_, before=self.last, forced=forced)

    def due(self, round_: int) -> bool:
        """Return whether the client takes part by reservation, in a new or a repeated round."""
        return round_ == self.reserved or (round_ == self.last and not self.forced)
