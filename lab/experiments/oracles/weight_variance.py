"""Σ = Σ_i Var[ω_i], the variance of the aggregation weights, of random and proportional selection.

That of the Markov policies (Theorem 5) is in :mod:`aoi_fl.lab.experiments.oracles.markov_chain`; the one that a
history shows is in :mod:`aoi_fl.science.load`. Sizes d_i are whole numbers of examples, (n,).

References
----------
A. Javani, Z. Wang, "Balancing Client Participation in Federated Learning Using AoI", 2025.
"""

import numpy as np


def random_weight_moments(sizes, per_round):
    """Return Σ_i E[ω_i²] and Σ_i E[ω_i]² of k clients chosen uniformly at random, weights d_i/Σ_{j∈S} d_j; exact.

    The sum over all C(n, k) subsets is one over the totals that k−1 of the other clients can have. Their law is found
    by dynamic programming over (how many, their total), once for each distinct size: O(n·k·D) each, D = Σ d_i in units
    of the sizes' common divisor. Equal sizes give 1/k and 1/n.

    Source: Theorem 3, eqs. (28)–(31).

    >>> random_weight_moments(np.array([7, 7, 7, 7]), 2)
    (0.5, 0.25)
    """
    clients, units = len(sizes), sizes // np.gcd.reduce(sizes)
    distinct, copies = np.unique(units, return_counts=True)
    if len(distinct) == 1:
        return 1 / per_round, 1 / clients
    square = means_square = 0.0
    for size, number in zip(distinct.tolist(), copies.tolist(), strict=True):
        others = np.delete(units, np.flatnonzero(units == size)[0])
        law = subset_sums(others, per_round - 1)  # of the others' total, given that the client is in S
        weight = size / (size + np.arange(len(law)))
        square += number * per_round / clients * (law @ weight**2)
        means_square += number * (per_round / clients * (law @ weight)) ** 2
    return square, means_square


def subset_sums(sizes, count):
    """Return P(total = s) at position s, for ``count`` of the sizes drawn without replacement.

    >>> subset_sums(np.array([1, 1, 2]), 2).round(6).tolist()
    [0.0, 0.0, 0.333333, 0.666667]
    """
    most = np.sort(sizes)[len(sizes) - count :].sum()
    chance = np.zeros((count + 1, most + 1))  # of having c among the clients seen so far, with that total
    chance[0, 0] = 1.0
    for seen, size in enumerate(sizes.tolist()):
        take = np.clip((count - np.arange(count + 1)) / (len(sizes) - seen), 0.0, 1.0)[:, None]  # wanted over left
        taken = chance * take
        chance -= taken
        if size <= most:
            chance[1:, size:] += taken[:-1, : most + 1 - size]
    return chance[count]


def proportional_weight_variance(sizes, per_round):
    """Return Σ = Σ q_i(1−q_i)/k of k draws with replacement, q_i = d_i/Σ d, and weights l/k for l times drawn.

    Source: Theorem 4. Equal sizes give (1 − 1/n)/k.
    """
    shares = sizes / sizes.sum()
    return shares @ (1 - shares) / per_round
