"""Tables and rates with which clients of limited availability reach their target rates.

A client is available with probability a. If it was unavailable, it is available a round later with probability b
(:mod:`aoi_fl.science.presence`). With λ = 1 − b/a in [0, 1), it is unavailable in the m-th round after an available one
with probability (1−a)(1−λ^m), and returns after 1/b rounds in the mean. b = a is a coin a round; b → 0 are endless
spells. A target above a is missed by the difference. Arrays have shape (n,).
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from aoi_fl.science.errors import ConfigError
from aoi_fl.science.presence import Presence
from aoi_fl.science.rates import LONGEST, own_table
from aoi_fl.science.tables import Probabilities
from aoi_fl.science.types import Floats, Ints, Mask

_DIGITS = 3  # of a rate in a message
EVERY = 10  # rounds between two new rates


def mean_waits(rounds: Ints | int, share: Floats | float, returning: Floats | float) -> Floats:
    """Return E[X_m] = m + (1−a)(1−λ^m)/b of clients willing from the m-th round on, with b cut to a.

    >>> mean_waits(np.array([1, 4]), 0.5, 0.5).tolist(), float(mean_waits(4, 0.5, 0.05).round(6))
    ([2.0, 5.0], 7.439)
    """
    back = np.minimum(returning, share)
    return np.asarray(rounds + (1 - share) * (1 - (1 - back / share) ** rounds) / back, dtype=np.float64)


def absent_steps(rates: Floats, share: Floats, returning: Floats) -> tuple[Ints, Floats]:
    """Return the tables with which clients reach their rates: j and p_j; earlier ages have 0, later ones 1.

    With m = j+1 the largest for which E[X_m] ≤ 1/r, p_j = (E[X_(m+1)] − 1/r)/(E[X_(m+1)] − E[X_m]). In the Bernoulli
    case that is the table of :func:`aoi_fl.science.tables.optimal_steps` for the dropout 1−a. Rates are in (0, 1]; a
    client with a rate above a is willing at every age. ``share`` and ``returning`` are a in (0, 1] and b in (0, 1).
    """
    mean = 1 / rates
    low = _longest(np.floor(mean).astype(np.int64) + 1, lambda m: mean_waits(m, share, returning) <= mean)  # E[X_m] ≥ m
    sooner, later = mean_waits(low, share, returning), mean_waits(low + 1, share, returning)
    return low - 1, np.clip((later - mean) / (later - sooner), 0.0, 1.0)


def _longest(above: Ints, holds: Callable[[Ints], Mask]) -> Ints:
    """Return (n,) the largest number from 1 to below ``above`` for which each client's condition holds, or 1.

    The condition holds up to some number and for none above it.
    """
    low, high = np.ones_like(above), above
    while (open_ := high - low > 1).any():
        middle = (low + high) // 2
        good = holds(middle)
        low, high = np.where(open_ & good, middle, low), np.where(open_ & ~good, middle, high)
    return low


@lru_cache(maxsize=4096)
def absent_table(rate: float, share: float, returning: float) -> Probabilities:
    """Return one client's table p_0 … p_m of :func:`absent_steps`; the papers' if it is always available.

    Raises ConfigError if it has more than a million ages.

    >>> absent_table(0.15, 1.0, 0.5) == own_table(0.15), absent_table(0.15, 0.1, 0.05)
    (True, (1.0,))
    """
    if share == 1:
        return own_table(rate)
    first, at = absent_steps(np.array([rate]), np.array([share]), np.array([returning]))
    if first[0] > LONGEST:
        raise ConfigError("rate", rate, f"larger: the client's table would have {first[0]} ages", "Raise the rate.")
    return (0.0,) * int(first[0]) + ((float(at[0]), 1.0) if at[0] < 1 else (1.0,))


def stride_rates(rates: Floats, share: Floats, returning: Floats) -> Floats:
    """Return the rates of systematic participation with which clients reach theirs; 1 where r is above a.

    A client makes up a missed round within its stride. A stride of L rounds brings a participation with probability
    1 − (1−a)(1−b)^(L−1), so the rate reached is known at 1/L and linear between 1/(L+1) and 1/L. It is inverted here.

    >>> stride_rates(np.array([0.25, 0.25]), np.array([1.0, 0.5]), np.array([0.5, 0.1])).round(6).tolist()
    [0.25, 0.445652]
    """

    def achieved(length: Ints) -> Floats:
        return (1 - (1 - share) * (1 - np.minimum(returning, share)) ** (length - 1)) / length

    always = share == 1

    short = _longest(np.floor(1 / rates).astype(np.int64) + 1, lambda length: achieved(length) >= rates)
    long = short + 1
    more, less = achieved(short), achieved(long)
    part = np.clip((rates - less) / np.where(always, 1.0, more - less), 0.0, 1.0)
    return np.where(always, rates, 1 / long + part * (1 / short - 1 / long))


def achievable(rates: Floats, share: Floats) -> Floats:
    """Return the part of the target rates that clients can reach: at most their availability."""
    return np.minimum(rates, share)


def told_rates(rates: Floats, presence: Presence) -> Floats:
    """Return the :func:`stride_rates` for the known presence of the first n clients, rounded for the message."""
    n = len(rates)
    wanted = stride_rates(rates, presence.share[:n], presence.returning[:n])
    unit = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(wanted)))
    return np.where(wanted == rates, wanted, np.minimum(np.round(wanted * unit) / unit, 1.0))
