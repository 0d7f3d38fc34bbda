"""Two properties of the Markov policies: how fast ages forget their start, and the variance of the weights.

The chain is that of min(age, m): from age a to 0 with probability h_a, to min(a+1, m) otherwise.

References
----------
[1] A. Javani, Z. Wang, "Load Balancing in Federated Learning", Globecom 2024, Fig. 1.
[2] A. Javani, Z. Wang, "Balancing Client Participation in Federated Learning Using AoI", 2025.
"""

import math

import numpy as np

from aoi_fl.science import age

_DOUBLINGS = 62  # rounds are counted up to 2^62


def period(hazards):
    """Return the greatest common divisor of the possible waits; above 1, ages never mix."""
    survival = age.survival(hazards)
    waits = np.flatnonzero((survival * hazards)[:-1]) + 1
    beyond = [len(hazards)] if survival[-1] else []
    if beyond and hazards[-1] < 1:
        return 1  # both m+1 and m+2 are possible
    return np.gcd.reduce(np.concatenate((waits, np.array(beyond, dtype=np.int64))))


def rounds_to_mix(hazards, tolerance=0.05):
    """Return the rounds until ages that start at 0 are within a total variation distance of their final law.

    The distance never grows; repeated squaring finds the round in O(m³ log rounds). None if there is none, as for the
    optimal table when k divides n and m ≥ n/k − 1: then all clients stay in step.
    """
    if 1 - 1 / period(hazards) >= tolerance:  # a chain of period c stays within one c-th of its ages
        return None
    reachable = np.count_nonzero(age.survival(hazards))
    final = age.stationary(hazards)[:reachable]
    step = np.zeros((reachable, reachable))
    ages = np.arange(reachable)
    step[ages, np.minimum(ages + 1, reachable - 1)] = 1 - hazards[:reachable]
    step[:, 0] += hazards[:reachable]

    def far(law):
        return np.abs(law - final).sum() / 2 > tolerance

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


def markov_weight_variance(policy):
    """Return Σ, the sum of Var[ω_i] over the clients with ω_i = 1/|S| for i in S ([2], Theorem 5, eq. (33)).

    |S| is Binomial(n, r) with r = 1/E[X], so Σ depends on the mean rate alone. As printed, (33) counts an empty round
    as 0. Over the rounds with participants, as :class:`aoi_fl.science.load.LoadMetrics` measures it, Σ + 1/n is larger
    by 1/P(|S| > 0).
    """
    n, rate = policy.clients, min(1 / policy.interval_mean, 1.0)
    if rate == 1:
        return 0.0
    mode = min(math.floor((n + 1) * rate), n)
    reach = math.ceil(40 * math.sqrt(n * rate * (1 - rate))) + 100
    low, high = max(0, mode - reach), min(n, mode + reach)
    sizes = np.arange(low, high + 1, dtype=np.float64)
    steps = np.log((n - sizes[:-1]) / (sizes[:-1] + 1)) + math.log(rate) - math.log1p(-rate)
    logs = np.concatenate(([0.0], np.cumsum(steps)))
    weights = np.exp(logs - logs.max())
    served = sizes > 0
    return (weights[served] / sizes[served]).sum() / weights.sum() - 1 / n
