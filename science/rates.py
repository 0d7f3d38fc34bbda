"""Rates of one's own: in what share of the rounds each client takes part.

Client i has a rate r_i in (0, 1], and the rates add up to k, so that k clients take part in a round in the mean. A rate
travels as a float and is computed with as the fraction it stands for, :func:`exact`. Arrays have shape (n,).
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import get_args

import numpy as np

from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import RateRule
from aoi_fl.science.tables import Probabilities, decimal, optimal_steps
from aoi_fl.science.types import Floats, Ints

_FINEST = 1 << 26  # two fractions near r with denominators up to 2^26/√r differ by more than a double's rounding
_RAREST = 1e-15  # a smaller rate means waits that no longer fit an int64
LONGEST = 10**6  # ages in a table
_OFF = 1e-6  # how far decimals may be off their sum k, in participations a round


def exact(rate: float) -> Fraction:
    """Return the fraction a/b that a rate stands for: the nearest with ab ≤ 2^52 or so, as exact as a double is.

    Every k/n with n ≤ 2^26 is recovered from its double, so nothing drifts.

    >>> exact(15 / 100), exact(1 / 3)
    (Fraction(3, 20), Fraction(1, 3))
    """
    return Fraction(rate).limit_denominator(int(_FINEST / math.sqrt(rate)))


def equal_rates(clients: int, per_round: int) -> Floats:
    """Return k/n for every client.

    >>> equal_rates(4, 3).tolist()
    [0.75, 0.75, 0.75, 0.75]
    """
    if not 1 <= per_round <= clients:
        raise ConfigError(
            "per-round", per_round, f"from 1 to {clients}, the number of clients", "Choose another number."
        )
    return np.full(clients, per_round / clients)


def size_rates(sizes: Ints, per_round: int, most: float = 1.0) -> tuple[Floats, int]:
    """Return rates in proportion to the data sizes, min(most, c·d_i) with Σ r_i = k, and the number of capped ones.

    Water-filling: the largest clients are capped until the rest of k, in proportion to size, caps no other client. c
    comes from sums of whole numbers, without iteration.

    Parameters
    ----------
    sizes : (n,) int64, examples d_i ≥ 1
    per_round : k, at most n·most
    most : the cap, in (0, 1]; 1−d for Markov policies that make up for a dropout d

    Raises ConfigError if k is out of range, or a client has no examples.

    >>> size_rates(np.array([1, 1, 2, 6]), 2)
    (array([0.25, 0.25, 0.5 , 1.  ]), 1)
    """
    clients = len(sizes)
    if not 1 <= per_round <= clients * decimal(most):
        allowed = f"from 1 to {clients * most:g}, for {clients} clients of rate {most:g} at most"
        raise ConfigError("per-round", per_round, allowed, "Choose another number.")
    empty = np.flatnonzero(sizes < 1)
    if empty.size:
        allowed = "at least 1, for a rate in proportion"
        remedy = "Leave the client out, or choose equal rates."
        raise ConfigError(f"size of client {empty[0]}", int(sizes[empty[0]]), allowed, remedy)
    falling = np.sort(sizes)[::-1]
    rest = np.cumsum(falling[::-1])[::-1]  # Σ d of those that are left when the first 0, 1, 2, … are capped
    left = per_round - most * np.arange(clients)
    # The first number of capped clients for which the largest of the others stays within the cap.
    fits = left * falling <= most * rest
    fits[-1] = True  # as k ≤ n·most, despite rounding
    capped = int(np.argmax(fits))
    rates: Floats = np.minimum(left[capped] * sizes / rest[capped], most)
    rates[np.argsort(-sizes, kind="stable")[:capped]] = most
    return rates, capped


def given_rates(
    values: Sequence[float | None], per_round: int, names: Sequence[str], key: str = "per-round", most: float = 1.0
) -> Floats:
    """Return the user's rates after a check.

    Raises ConfigError, with client and rate, for a missing one (None or NaN) or one outside (0, most], and for a sum
    that is not k, the value of ``key``, to within 10^-6.

    >>> given_rates([0.5, 0.25, 0.25], 1, ["a", "b", "c"]).tolist()
    [0.5, 0.25, 0.25]
    """
    if len(values) != len(names):
        raise ConfigError("rates", len(values), f"{len(names)} numbers, one a client", "Give each client a rate.")
    for name, value in zip(names, values, strict=True):
        if value is None or np.isnan(value):
            raise ConfigError(
                f"rate of client {name}", None, "a number above 0 and at most 1", "Give this client a rate."
            )
    rates = np.asarray(values, dtype=np.float64)
    check_rates(rates, names, most)
    total = float(rates.sum())
    if abs(total - per_round) > _OFF:
        remedy = f"Multiply each rate by {per_round / total:.9g}, or change {key}."
        raise ConfigError("sum of the clients' rates", f"{total:.9g}", f"{key}, {per_round}", remedy)
    return rates


def check_rates(rates: Floats, names: Sequence[str] | None = None, most: float = 1.0) -> None:
    """Raise ConfigError, naming client and value, unless every rate is in (0, most]; 1−d for a dropout d."""
    wrong = np.flatnonzero(~((rates >= _RAREST) & (rates <= most)))
    if wrong.size:
        name = names[wrong[0]] if names else wrong[0]
        allowed = f"at least {_RAREST} and at most {most:g}" + ("" if most == 1 else ", 1 − dropout")
        remedy = "Choose another rate." if most == 1 else "Choose another rate, or lower dropout."
        raise ConfigError(f"rate of client {name}", rates[wrong[0]], allowed, remedy)


def pooled_variance(rates: Floats, variances: Floats) -> float:
    """Return Var[X] of all clients' intervals together from each client's own Var[X_i].

    Client i contributes intervals in proportion to r_i: Σ r_i (Var[X_i] + 1/r_i²)/k − (n/k)².

    >>> round(pooled_variance(np.array([0.5, 0.25]), np.zeros(2)), 12)
    0.888888888889
    """
    total = rates.sum()
    centred = variances + (1 / rates - len(rates) / total) ** 2
    return float(rates @ centred / total)


def make_rates(rule: RateRule, sizes: Ints, per_round: int, most: float = 1.0) -> tuple[Floats, int]:
    """Return the rates of a rule by sizes alone, ``equal`` or ``size``, and the number of capped ones."""
    return size_rates(sizes, per_round, most) if rule == "size" else (equal_rates(len(sizes), per_round), 0)


def check_rule(rule: str) -> None:
    """Raise ConfigError unless a rule needs sizes alone."""
    known = get_args(RateRule)[:2]
    if rule not in known:
        raise ConfigError("rates", rule, (*known, "the rates themselves"), "Choose one of these.")


@lru_cache(maxsize=1024)
def own_table(rate: float, dropout: float = 0.0) -> Probabilities:
    """Return the table p_0 … p_m by which a client of a rate decides alone.

    A dropout above 1−r, all that a table can make up for, is cut to that. Raises ConfigError for more than a million
    ages, as for a rate below 10⁻⁶.

    >>> own_table(0.4), own_table(0.4, 0.7)
    ((0.0, 0.5, 1.0), (1.0, 1.0))
    """
    fraction = exact(rate)
    first, at = 0, 1.0
    if decimal(dropout) < 1 - fraction:
        first, at, _ = optimal_steps(1 / fraction, None, dropout)
    if first >= LONGEST:
        remedy = f"Raise the rate to at least {1 / LONGEST:g}, or choose systematic participation, which has no table."
        allowed = f"larger: its table would have {first + 1} ages, and at most {LONGEST} are possible"
        raise ConfigError("rate", rate, allowed, remedy)
    return (0.0,) * first + (at, 1.0)


def largest_rate(dropout: float) -> float:
    """Return 1−d, the largest rate that clients reach where a share d of their work is lost.

    >>> largest_rate(0.7)
    0.3
    """
    return float(1 - decimal(dropout))
