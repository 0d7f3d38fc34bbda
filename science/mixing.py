"""How fast ages forget their start, from the hazards h_0 … h_m of taking part at each age.

The chain is that of min(age, m): from age a to 0 with probability h_a, to min(a+1, m) otherwise.

References
----------
A. Javani, Z. Wang, "Load Balancing in Federated Learning", Globecom 2024, Fig. 1.
"""

import numpy as np

from aoi_fl.science import age
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.types import Floats

_DOUBLINGS = 62  # rounds are counted up to 2^62


def stationary(hazards: Floats) -> Floats:
    """Return the (m+1,) law of min(age, m) at the start of a round."""
    weights = age.survival(hazards)
    weights[-1] /= hazards[-1]
    law: Floats = weights / weights.sum()
    return law


def period(hazards: Floats) -> int:
    """Return the greatest common divisor of the possible waits; above 1, ages never mix."""
    survival = age.survival(hazards)
    waits = np.flatnonzero((survival * hazards)[:-1]) + 1
    beyond = [len(hazards)] if survival[-1] else []
    if beyond and hazards[-1] < 1:
        return 1  # both m+1 and m+2 are possible
    return int(np.gcd.reduce(np.concatenate((waits, np.array(beyond, dtype=np.int64)))))


def second_eigenvalue(hazards: Floats) -> float:
    """Return the modulus of the chain's second largest eigenvalue; O(m³) for a free table.

    Beside 1, the eigenvalues are the roots of λ^m + Σ_{a=1..m} P(X > a−1)·(h_m − h_{a−1})·λ^{m−a}.
    """
    if period(hazards) > 1:
        return 1.0
    coefficients = np.concatenate(([1.0], age.survival(hazards)[:-1] * (hazards[-1] - hazards[:-1])))
    roots = np.roots(coefficients)
    return min(float(np.abs(roots).max()), 1.0) if roots.size else 0.0


def rounds_to_mix(hazards: Floats, tolerance: float = 0.05) -> int | None:
    """Return the rounds until ages that start at 0 are within a total variation distance of their final law.

    The distance never grows; repeated squaring finds the round in O(m³ log rounds). None if there is none, as for the
    optimal table when k divides n and m ≥ n/k − 1: then all clients stay in step.
    """
    if not 0 < tolerance < 1:
        raise ConfigError("tolerance", tolerance, "between 0 and 1", "Choose a distance such as 0.05.")
    if 1 - 1 / period(hazards) >= tolerance:  # a chain of period c stays within one c-th of its ages
        return None
    reachable = int(np.count_nonzero(age.survival(hazards)))
    final = stationary(hazards)[:reachable]
    step = np.zeros((reachable, reachable))
    ages = np.arange(reachable)
    step[ages, np.minimum(ages + 1, reachable - 1)] = 1 - hazards[:reachable]
    step[:, 0] += hazards[:reachable]

    def far(law: Floats) -> bool:
        return float(np.abs(law - final).sum()) / 2 > tolerance

    law = np.zeros(reachable)
    law[0] = 1.0
    if not far(law):
        return 0
    powers = [step]  # step^(2^i)
    while far(law @ powers[-1]):
        if len(powers) > _DOUBLINGS:
            return None
        square = powers[-1] @ powers[-1]
        powers.append(square / square.sum(axis=1, keepdims=True))  # rounding must not build up
    rounds = 0
    for i in reversed(range(len(powers) - 1)):  # the largest number of rounds after which it is still far
        if far(ahead := law @ powers[i]):
            law, rounds = ahead, rounds + 2**i
    return rounds + 1
