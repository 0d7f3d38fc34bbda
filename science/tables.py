"""Tables p_0 … p_m of participation probabilities for any rational mean wait E[X].

References
----------
[1] A. Javani, Z. Wang, "Load Balancing in Federated Learning", Globecom 2024.
[2] A. Javani, Z. Wang, "Balancing Client Participation in Federated Learning Using AoI", 2025.
"""

import math
from fractions import Fraction

import numpy as np

from aoi_fl.science.errors import ConfigError
from aoi_fl.science.types import Floats

Probabilities = tuple[float, ...]

_ROUNDING = Fraction(1, 10**12)  # what a rate that was rounded to a double may be above 1−d, in relation to it


def decimal(value: float) -> Fraction:
    """Return a number as its decimals have it: 0.85 is 17/20, not the binary number next to it."""
    return Fraction(repr(float(value)))


def optimal_steps(mean: Fraction, max_age: int | None = None, dropout: float = 0.0) -> tuple[int, float, float]:
    """Return the table of least Var[X] for a mean wait, as three numbers: j, p_j, and p at all later ages.

    Earlier ages have 0. With μ the mean, s = 1−d and j = ⌊μ − 1/s⌋: if j ≥ m, p_m = 1/((μ−m)s) is the only one, at age
    m and later; otherwise p_j = (1−(μ−j−1)s)/s, and 1 later. Without dropout j is ⌊μ⌋−1, the papers' case, and Var[X]
    is (μ−m)(μ−m−1) if m ≤ j, else f(1−f) with f the fraction of μ. In floating point ⌊μ⌋ goes wrong (μ = 93/1).

    Parameters
    ----------
    mean : E[X] ≥ 1, in rounds
    max_age : m ≥ 0; None for as large as it needs to be, j+1
    dropout : d, probability that a willing client can't be reached

    Raises ConfigError if d > 1−1/μ, by more than rounding: not even an always willing client then reaches the mean.
    Source: [1], Theorems 1 and 2 in one; [2], Theorem 1.

    >>> optimal_steps(Fraction(5, 2))
    (1, 0.5, 1.0)
    """
    check_dropout(dropout)
    reached = 1 - decimal(dropout)
    if reached * mean < 1 - _ROUNDING:
        allowed = f"at most {float(1 - 1 / mean):g} for a mean wait of {float(mean):g} rounds"
        raise ConfigError("dropout", dropout, allowed, f"Lower dropout, or the rate to at most {float(reached):g}.")
    reached = max(reached, 1 / mean)
    first = math.floor(mean - 1 / reached)
    if max_age is not None and first >= max_age:
        rare = float(1 / ((mean - max_age) * reached))
        return max_age, rare, rare
    return first, float((1 - (mean - first - 1) * reached) / reached), 1.0


def optimal(mean: Fraction, max_age: int, dropout: float = 0.0) -> Probabilities:
    """Return the table p_0 … p_m of :func:`optimal_steps`.

    >>> optimal(Fraction(5, 2), 3)
    (0.0, 0.5, 1.0, 1.0)
    """
    first, at, later = optimal_steps(mean, max_age, dropout)
    return (0.0,) * first + (at,) + (later,) * (max_age - first)


def increasing(mean: Fraction, max_age: int, exponent: float = 1.0) -> Probabilities:
    """Return p_a = 1 − exp(−s(a+1)^α), with s such that E[X] is the mean: [2]'s non-optimal policy, p_0 < p_1 < ….

    [2] gives no formula for its table. α → 0 is the uniform table, and a larger α a sharper rise. A mean of 1 is the
    limit s → ∞, with p = 1 at every age.
    """
    if not (math.isfinite(exponent) and exponent > 0):
        raise ConfigError("exponent", exponent, "positive", "Choose 1 for the usual table.")
    if mean == 1:
        return (1.0,) * (max_age + 1)
    powers = exponent * np.log(np.arange(1, max_age + 2))

    def rates(log_s: float) -> Floats:
        with np.errstate(over="ignore"):  # an infinite rate is p = 1
            rising: Floats = np.exp(log_s + powers)
        return rising

    def waits(log_s: float) -> float:
        above = np.exp(-np.concatenate(([0.0], np.cumsum(rates(log_s)))))
        rare = -np.expm1(-rates(log_s)[-1])
        return float(above[:-2].sum() + above[-2] / rare) if rare > 0 else math.inf

    low, high = -1.0, 4.0  # E[X] falls in s
    while waits(low) < mean:
        low *= 2
    while waits(high) > mean:
        high *= 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if waits(middle) > mean else (low, middle)
    return tuple((-np.expm1(-rates(high))).tolist())


def check_dropout(dropout: float) -> None:
    """Raise ConfigError unless d is in [0, 1)."""
    if not 0 <= dropout < 1:
        raise ConfigError("dropout", dropout, "in [0, 1): the probability that an update is lost", "Choose 0 for none.")
