"""The laws of systematic participation in closed form: X, and the load of T rounds.

A stride is 1/r rounds. Jitter J, cut to 1−r, puts participation j off to s_j = j − u + J·w_j strides; its round is the
first one to end after that. The phase u and the w_j are uniform on [0, 1), as both rules of phases make them.

Source: derived here; without jitter Var[X] is the minimum of Javani & Wang 2024, Theorem 2.
"""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np

from aoi_fl.science.rates import exact
from aoi_fl.science.strides import check_jitter
from aoi_fl.science.tables import decimal

_DIFFERENCE = ((-1, 1), (0, -2), (1, 1))  # steps and factors of a second difference


def interval_law(rate: float, jitter: float = 0.0) -> dict[int, float]:
    """Return {x: P(X = x)}; without jitter ⌊1/r⌋ and, with probability frac(1/r), one round more.

    Two participations are D = (1 + J(w'−w))/r rounds apart before they fall into whole rounds, and X is D rounded up or
    down without bias: P(X = x | D) = max(0, 1−|x−D|). D itself is triangular about 1/r with half-width c = J/r, so that
    P(X = x) is the density of two triangular variables' sum at x − 1/r, of half-widths 1 and c. With w the smaller of
    them and W the larger, that is the second difference of g(y) = |y| + w·max(0, 1−|y|/w)³/3 in steps of W, over 2W²,
    in which no large cubes cancel, as they do in that of |y|³ in steps of both.

    >>> {x: round(p, 12) for x, p in interval_law(15 / 100).items()}
    {6: 0.333333333333, 7: 0.666666666667}
    >>> {x: round(p, 4) for x, p in interval_law(15 / 100, 0.2).items()}
    {5: 0.0278, 6: 0.3715, 7: 0.5069, 8: 0.0938}
    """
    mean, width = 1 / exact(rate), _width(rate, jitter)
    whole, rest = divmod(mean, 1)
    if not width:
        return {int(whole): float(1 - rest)} | ({int(whole) + 1: float(rest)} if rest else {})
    first, last = math.floor(mean - width), math.ceil(mean + width)
    away = np.arange(first - int(whole), last - int(whole) + 1) - float(rest)  # x − 1/r
    narrow, wide = sorted((1.0, float(width)))
    law = np.zeros(len(away))
    for step, factor in _DIFFERENCE:
        y = np.abs(away + step * wide)
        law += factor * (y + narrow * np.maximum(0.0, 1 - y / narrow) ** 3 / 3)
    law = np.maximum(law, 0.0) / (2 * wide**2)
    return dict(zip(range(first, last + 1), law.tolist(), strict=True))


def interval_variance(rate: float, jitter: float = 0.0) -> float:
    """Return Var[X], in rounds²: f(1−f) with f = frac(1/r), and what the jitter adds.

    By the law above Var[X] = Var[D] + E[frac(D)(1−frac(D))]; with c = J/r and the fourth Bernoulli polynomial B₄,
    continued periodically,

        c²/6 + 1/6 − [B₄(1/r + c) − 2B₄(1/r) + B₄(1/r − c)]/(12c²),

    which is f(1−f) still for c up to the smaller of f and 1−f: a jitter of less than a round costs nothing there.

    >>> round(interval_variance(15 / 100), 12), round(interval_variance(15 / 100, 0.2), 4)
    (0.222222222222, 0.4653)
    """
    mean, width = 1 / exact(rate), _width(rate, jitter)
    if not width:
        return float(mean % 1 * (1 - mean % 1))
    bend = sum(factor * _bernoulli4(mean + step * width) for step, factor in _DIFFERENCE)
    return float(width**2 / 6 + Fraction(1, 6) - bend / (12 * width**2))


def window_variance(rate: float, rounds: int, jitter: float = 0.0) -> float:
    """Return Var(Y_T), Y_T how often a client takes part in T rounds: bounded, however large T is.

    Without jitter frac(rT)(1−frac(rT)) ≤ 1/4. With it, the strides begun by the end of a round are the participations
    by then, but for the last one, which is still to come with probability max(0, 1−v/J) if v strides have passed since
    it began. With h(v) = v + max(0, 1−v/J) and L = rT, the two ends of the window give

        Var(Y_T) = J/3 − max(0, J−L)³/(3J²) + Var[h(v) − h(frac(v+L))],

    v uniform; the second term is for windows so short that both ends may be in one stride.

    >>> window_variance(15 / 100, 10), window_variance(15 / 100, 100), round(window_variance(15 / 100, 100, 0.2), 4)
    (0.25, 0.0, 0.0667)
    """
    length = exact(rate) * rounds
    late = float(exact(rate)) * float(_width(rate, jitter))  # J, cut to 1−r
    if not late:
        return float(length % 1 * (1 - length % 1))
    shift = float(length % 1)

    def apart(v: float) -> float:
        ahead = (v + shift) % 1
        return v + max(0.0, 1 - v / late) - ahead - max(0.0, 1 - ahead / late)

    # Straight between these marks, so middle and slope of each stretch suffice.
    marks = sorted({0.0, late, 1 - shift, (late - shift) % 1, 1.0})
    mean = square = 0.0
    for low, high in pairwise(marks):
        third, two_thirds = (apart(low + (high - low) * part) for part in (1 / 3, 2 / 3))
        middle, slope = (third + two_thirds) / 2, 3 * (two_thirds - third)
        mean += (high - low) * middle
        square += (high - low) * (middle**2 + slope**2 / 12)
    return late / 3 - max(0.0, late - float(length)) ** 3 / (3 * late**2) + square - mean**2


def _width(rate: float, jitter: float) -> Fraction:
    """Return c = J/r in rounds, J cut to 1−r."""
    check_jitter(jitter)
    return min(decimal(jitter), 1 - exact(rate)) / exact(rate)


def _bernoulli4(x: Fraction) -> Fraction:
    x %= 1
    return x**4 - 2 * x**3 + x**2 - Fraction(1, 30)
