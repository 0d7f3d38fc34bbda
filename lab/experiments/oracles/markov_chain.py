"""Two properties of the Markov policies: how fast ages forget their start, and the variance of the weights.

The chain is that of min(age, m): from age a to 0 with probability h_a, to min(a+1, m) otherwise.

References
----------
[1] A. Javani, Z. Wang, "Load Balancing in Federated Learning", Globecom 2024, Fig. 1.
[2] A. Javani, Z. Wang, "Balancing Client Participation in Federated Learning Using AoI", 2025.
"""

import numpy as np
from scipy import stats

from aoi_fl.science import age

_MOST = 10_000  # rounds that are counted


def transition(hazards):
    """Return (m+1, m+1) the chain's probabilities, from the age in a row to the one in a column."""
    step, ages = np.zeros((len(hazards), len(hazards))), np.arange(len(hazards))
    step[ages, np.minimum(ages + 1, ages[-1])] = 1 - hazards
    step[:, 0] += hazards
    return step


def rounds_to_mix(hazards, tolerance=0.05):
    """Return the rounds until ages that start at 0 are within a total variation distance of their final law.

    The distance never grows. None if there is none within 10,000 rounds, as for the optimal table when k divides n and
    m ≥ n/k − 1: then all clients stay in step.
    """
    final, step, law = age.stationary(hazards), transition(hazards), np.eye(len(hazards))[0]
    for rounds in range(_MOST):
        if np.abs(law - final).sum() / 2 <= tolerance:
            return rounds
        law = law @ step
    return None


def markov_weight_variance(policy):
    """Return Σ, the sum of Var[ω_i] over the clients with ω_i = 1/|S| for i in S ([2], Theorem 5, eq. (33)).

    |S| is Binomial(n, r) with r = 1/E[X], so Σ depends on the mean rate alone. As printed, (33) counts an empty round
    as 0. Over the rounds with participants, as :class:`aoi_fl.science.load.LoadMetrics` measures it, Σ + 1/n is larger
    by 1/P(|S| > 0).
    """
    n, rate = policy.clients, min(1 / policy.interval_mean, 1.0)
    sizes = np.arange(1, n + 1)
    return (stats.binom.pmf(sizes, n, rate) / sizes).sum() - 1 / n
