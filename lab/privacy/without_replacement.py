"""A bound of epsilon for exactly k of n clients at random in every round, with white noise.

Neighbours differ in one client, whose updates are zero in one of them. Given the k − 1 others, this client joins them
with probability q = k/n, and another one does otherwise. Its update u and the other's v are the worst ones of norm 1:
δ is the mean of a convex function of a sum of normal densities. Where the loss is above 0 it grows as ⟨u, v⟩ falls, and
where it is below 0 as ⟨u, v⟩ rises (Kahane's inequality). So one round is at most as telling as

    q N(1) + (1−q) N(−1) against q N(0) + (1−q) N(−1)    where the loss is above 0,
    N(1) against q N(0) + (1−q) N(1)                     where it is below 0.

The losses of T rounds add up. One round's are put on a grid, each between its two neighbours so that no δ falls. The
sum is convolved by FFT, after a tilt by e^{θ·loss}, so that rounding does not matter at a small δ.

References
----------
Y. Zhu, J. Dong, Y.-X. Wang 2022, Optimal Accounting of Differential Privacy via Characteristic Function, AISTATS.
V. Doroshenko et al. 2022, Connect the Dots: Tighter Discrete Approximations of Privacy Loss Distributions, PoPETs.
"""

import math
from typing import Any

import numpy as np

from aoi_fl.science.privacy.account import bisect
from aoi_fl.science.types import Floats

_GRID = 2**19  # numbers of a convolution
_ROUND = 2**13  # and of one round, at most
_ROUNDING = 1e-14  # of a convolution, a round and a number
_ORDERS = np.geomspace(1e-3, 1e3, 60)


def epsilon_without_replacement(rate: float, deviation: float, rounds: int, delta: float) -> float:
    """Return a bound of ε for white noise.

    Parameters
    ----------
    rate : q = k/n, below 1
    deviation : of the noise, in clips
    rounds : T
    delta : δ
    """
    return max(_composed(*way, rounds, delta) for way in _one_round(rate, deviation, rounds, delta))


def _one_round(q: float, s: float, rounds: int, delta: float) -> list[tuple[Floats, Floats, float]]:
    """Return a round's losses in the run with the client's updates, and in the one without, there with the other sign.

    Each has an even grid of losses, their probabilities, and the probability of a larger one.
    """
    far = s * math.sqrt(2 * math.log(1e6 * rounds / delta))  # δ/10⁶ of all rounds lies beyond
    other = math.log1p(-q) - (1.5 + far) / s**2
    most = np.logaddexp(math.log(q) + (0.5 + far) / s**2, other) - np.logaddexp(math.log(q), other)
    least = -np.logaddexp(math.log1p(-q), math.log(q) + (0.5 + far) / s**2)
    step = (most - least) / min(_ROUND, max(_GRID // rounds - 2, 16))
    zero = math.ceil(-least / step)
    grid = step * np.arange(-zero, math.ceil(most / step) + 1)

    # the observation of a loss ℓ: if ℓ ≥ 0, e^{y/s²} is the root of a square; if ℓ ≤ 0, it has one term
    ratio, half = np.exp(grid[zero:]), math.exp(-1 / s**2)
    root = (ratio * q + np.sqrt((ratio * q) ** 2 + 4 * q * (1 - q) * (ratio - 1) * half)) / (2 * q)
    high = 0.5 + s**2 * np.log(root)
    low = 0.5 - s**2 * np.log1p(np.expm1(-grid[: zero + 1]) / q)
    apart = (1 - q) * _above((high + 1) / s)
    kept = _above((1 - low) / s)  # of smaller losses
    pairs = (
        (zero, q * _above((high - 1) / s) + apart, q * _above(high / s) + apart),
        (0, kept, q * _above(-low / s) + (1 - q) * kept),
    )
    theirs = np.zeros(len(grid))
    theirs[zero] = (1 - q) * (_above(-0.5 / s) - _above(1.5 / s))
    for at, in_ours, in_theirs in pairs:
        mass = np.abs(np.diff(in_theirs))
        edges = slice(at, at + len(mass)), slice(at + 1, at + 1 + len(mass))
        upper = (np.abs(np.diff(in_ours)) * np.exp(-grid[edges[0]]) - mass) / math.expm1(step)  # keeps ours
        upper = np.clip(upper, 0.0, mass)
        theirs[edges[1]] += upper
        theirs[edges[0]] += mass - upper
    ours = theirs * np.exp(grid)
    ours[0] += kept[0]
    theirs[-1] += pairs[0][2][-1]
    return [(grid, ours, float(pairs[0][1][-1])), (-grid[::-1], theirs[::-1], float(pairs[1][2][0]))]


def _composed(grid: Floats, masses: Floats, beyond: float, rounds: int, delta: float) -> float:
    """Return the ε of so many rounds, of which each has these losses."""
    logs = np.log(np.maximum(masses, 1e-300))
    left = delta + math.expm1(rounds * math.log1p(-beyond))

    def top(theta: float) -> float:
        return float((rounds * log_sum(logs + theta * grid) + peak(theta) - math.log(left)) / theta)

    theta = min(_ORDERS.tolist(), key=top)
    scale = log_sum(logs + theta * grid)
    count = rounds * (len(grid) - 1) + 1
    size = 2 ** math.ceil(math.log2(count))
    sums = np.fft.irfft(np.fft.rfft(np.exp(logs + theta * grid - scale), size) ** rounds, size)[:count]
    sums = np.maximum(sums, 0.0) + rounds * _ROUNDING
    losses = rounds * grid[0] + (grid[1] - grid[0]) * np.arange(count)

    def too_small(epsilon: float) -> bool:
        over = losses[np.searchsorted(losses, epsilon) :] - epsilon
        spent = np.exp(-theta * over) * -np.expm1(-over) @ sums[count - len(over) :]
        return bool(spent * math.exp(rounds * scale - theta * epsilon) > left)

    return bisect(too_small, max(top(theta), 0.0) + 1e-9)


def _above(x: Any) -> Any:
    """Return P(N(0, 1) > x)."""
    return np.vectorize(math.erfc, otypes=[float])(x / math.sqrt(2)) / 2


def peak(power: float) -> float:
    """Return the logarithm of the largest value of (x − 1)/x^{1+power}, from which an order gives a bound of δ."""
    return power * math.log(power) - (1 + power) * math.log1p(power)


def log_sum(logs: Floats) -> Any:
    """Return the logarithm of the sum of exponentials along the first axis."""
    top = logs.max(axis=0)
    return top + np.log(np.exp(logs - top).sum(axis=0))
