"""Lemmas, remarks and asides of the papers, computed another way.

Enumeration of every round for Javani & Wang 2025; exact chances of clients that leave; Algorithm 1 of Xu et al. 2024 as
printed, with its comparisons counted.
"""

from dataclasses import replace
from functools import cmp_to_key
from itertools import combinations, product
from math import comb

import numpy as np
from scipy.special import log_softmax

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.science.budget import BudgetedSelector
from aoi_fl.science.selection import everyone
from aoi_fl.science.simulate import simulate
from aoi_fl.science.whittle import whittle_index

_EQUAL = ((3, 1), (4, 2), (5, 2), (5, 4), (6, 3), (7, 3), (8, 5), (6, 6))  # clients n and how many a round, m
_DIMENSION, _POINTS = 3, 50
LEAVING = (0.02, 0.05, 0.1, 0.2)  # probability that a client leaves for good after a round
_POLICIES = ("markov-optimal", "markov-increasing")
_SIZES = (100, 1000, 10_000, 100_000)


def random_rounds(sizes, per_round):
    """Return (J,) probabilities and (J, n) weights of the rounds of random selection, Policy 1."""
    chosen = np.zeros((comb(len(sizes), per_round), len(sizes)))
    for row, subset in zip(chosen, combinations(range(len(sizes)), per_round), strict=True):
        row[list(subset)] = sizes[list(subset)]
    return np.full(len(chosen), 1 / len(chosen)), chosen / chosen.sum(axis=1, keepdims=True)


def proportional_rounds(sizes, per_round):
    """Return (J,) probabilities and (J, n) weights of the rounds of proportional selection, Policy 2."""
    clients = np.arange(len(sizes))
    drawn = np.array([*product(clients, repeat=per_round)])
    return (sizes / sizes.sum())[drawn].prod(axis=1), (drawn[..., None] == clients).mean(axis=1)


def _row(what, left, right, seed=1, **more):
    return {"seed": seed, "what": what, **more, "left": left, "right": right}


def equal_sizes():
    """Return Σ with equal sizes, enumerated and as Remarks 4 and 5 print it."""
    rows = []
    for n, m in _EQUAL:
        for policy, rounds, printed in (
            ("random", random_rounds, 1 / m - 1 / n),
            ("proportional", proportional_rounds, (1 - 1 / n) / m),
        ):
            if policy == "random" or n**m <= 10_000:
                chances, weights = rounds(np.full(n, 7.0), m)
                mean = chances @ weights
                rows.append(_row(policy, chances @ (weights**2).sum(axis=1) - mean @ mean, printed))
    return rows


def smoothness(seed):
    """Return the largest ‖∇F‖² / 2L(F − F*) of a random quadratic, at most 1 by Lemma 1."""
    rng = np.random.default_rng([seed, 1])
    root = rng.normal(size=(_DIMENSION, _DIMENSION))
    curvature = root @ root.T
    points = rng.normal(size=(_POINTS, _DIMENSION))
    gradients = points @ curvature
    above = np.einsum("ij,ij->i", points, gradients) / 2
    worst = ((gradients**2).sum(axis=1) / (2 * np.linalg.eigvalsh(curvature)[-1] * above)).max()
    return _row("lemma 1", worst, 1.0, seed)


def sampled(seed):
    """Return both sides of Lemmas 2 to 4 for random selection of m of n clients of random sizes and updates.

    Lemma 2's right side sums over S beside an expectation over S: it is taken in expectation, and, as its proof needs
    it, over all clients. In Lemma 3 the updates' norms are at most G.
    """
    rng = np.random.default_rng([seed, 2])
    n = rng.integers(3, 8)
    m = rng.integers(1, n)
    sizes, vectors = rng.integers(1, 20, n).astype(float), rng.normal(size=(n, _DIMENSION))
    vectors *= rng.uniform(0, 3, (n, 1))  # lengths that differ
    chances, weights = random_rounds(sizes, m)
    averages, squares, optimum = weights @ vectors, (vectors**2).sum(axis=1), rng.normal(size=_DIMENSION)
    gamma, mean = chances @ weights**2, chances @ weights
    sigma = (gamma - mean**2).sum()
    left = chances @ (averages**2).sum(axis=1) / m
    inside = chances @ ((weights > 0) @ (gamma * squares))
    apart = chances @ (((averages[:, None] - vectors) ** 2).sum(axis=2) * (weights > 0)).sum(axis=1)
    near = chances @ ((averages - optimum) ** 2).sum(axis=1)
    away = mean @ ((vectors - optimum) ** 2).sum(axis=1)
    return [
        _row("lemma 2, over S", left, inside, seed),
        _row("lemma 2, over all clients", left, gamma @ squares, seed),
        _row("lemma 3", apart / m, 16 * squares.max() * m * (sigma + 1), seed),  # ηK is in the updates
        _row("lemma 4", near, away, seed),
    ]


def noise():
    """Return E[B_noise] of eq. (49) for F(θ) = θ²/2 with exact gradients, K = 2 steps and η = 0.1 from θ = 1; and 0.

    The average gradient d of eq. (17) is taken along the local path, so it differs from ∇F at the start of the round
    whatever the mini-batches are.
    """
    start, rate, steps = 1.0, 0.1, 2
    path = [start * (1 - rate) ** step for step in range(steps)]  # ∇F(y) = y
    average = sum(path) / steps
    return _row("noise", 2 * steps * rate * (start - steps * rate * start) * (start - average), 0.0)


def smoothness_of_losses():
    """Return both sides of Assumptions 1 and 4 of Xu et al. 2024 for losses of one example, x = 1 and y = 0.

    Assumption 1 for |ω| from −h to h, with β = 1/(2h): F(h) − F(−h) ≤ −2h + 2βh². Assumption 4 for ω²/2 at ω = 10^j,
    with the bound G² that holds at ω = 1: F'(ω)² ≤ G².
    """
    rows = []
    for j in range(6):
        h = 10.0**-j
        rows.append(_row("absolute loss is smooth", 0.0, -2 * h + 2 * h**2 / (2 * h)))
        rows.append(_row("squared loss has bounded gradients", 10.0 ** (2 * j), 1.0))
    return rows


def curvatures(seed):
    """Return how far above its chord's foot a loss bends on a direction of length 1: 0 where it is not strongly convex.

    For logistic regression the direction that raises all classes alike, for the multi-class hinge loss any short one:
    F(ω+v) + F(ω−v) − 2F(ω), at least μ‖v‖² for a μ-strongly convex F.
    """
    rng = np.random.default_rng([seed, 3])
    x, y, model = rng.normal(size=(40, 5)), rng.integers(0, 3, 40), rng.normal(size=(5, 3))
    alike = np.repeat(rng.normal(size=(5, 1)), 3, axis=1)
    short = 1e-4 * rng.normal(size=(5, 3))

    def logistic(weights):
        return -log_softmax(x @ weights, axis=1)[np.arange(40), y].mean()

    def hinge(weights):
        margins = x @ weights
        margins = margins - margins[np.arange(40), y][:, None] + 1
        margins[np.arange(40), y] = 0
        return np.maximum(margins, 0).sum(axis=1).mean()

    rows = []
    for name, loss, v in (("LR", logistic, alike), ("SVM", hinge, short)):
        bend = loss(model + v) + loss(model - v) - 2 * loss(model)
        rows.append(_row(f"{name} is strongly convex", bend, (v**2).sum(), seed))
    return rows


def freshness():
    """Return the mean age of participants, E[X] − 1, beside that of all clients, (E[X²]/E[X] − 1)/2."""
    rows = []
    for policy in _POLICIES:
        table = setting.markov(policy)
        mean = table.interval_mean
        everybody = ((table.interval_variance + mean**2) / mean - 1) / 2
        rows.append(_row(f"age, {policy}", mean - 1, everybody))
    return rows


def heard():
    """Return the chance that a client takes part before it leaves, with p_i > 0 at all ages and with the optimal table.

    A newcomer of age 0 takes part for the first time after X rounds; one in its steady state in round r with
    probability P(X ≥ r)/E[X]. It is still there in round r with probability z^(r−1), z = 1 − λ.
    """
    rows = []
    for leaving in LEAVING:
        stay = 1 - leaving
        for start in ("zero", "stationary"):
            chance = []
            for policy in reversed(_POLICIES):
                table = setting.markov(policy)
                law = table.interval_pmf()
                if start == "stationary":
                    law = np.cumsum(law[::-1])[::-1] / table.interval_mean
                chance.append(law @ stay ** np.arange(len(law)))
            rows.append(_row(f"heard, {start}", chance[0], chance[1], leaving=leaving))
    return rows


def sorting(index):
    """Return how many comparisons it takes to sort clients by their index."""
    compared = 0

    def later(one, other):
        nonlocal compared
        compared += 1
        return -1 if index[one] > index[other] else 1 if index[one] < index[other] else one - other

    sorted(range(len(index)), key=cmp_to_key(later))
    return compared


def comparisons():
    """Return how many comparisons Algorithm 1 makes of N clients, beside N log₂ N."""
    rows = []
    for clients in _SIZES:
        rng = np.random.default_rng(clients)
        ages, payments, sensitivities = rng.integers(0, 50, clients), rng.uniform(5, 15, clients), rng.random(clients)
        compared = sorting(whittle_index(ages, payments, sensitivities, 40.0).tolist())
        compared += clients  # each one's payment with the rest of the budget
        rows.append(_row("sorting", compared, clients * np.log2(clients)))
    return rows


def starved():
    """Return how many selections Algorithm 1 makes with p = (5, 5, 5), B = 5, beside those that B pays for."""
    people, rounds = replace(everyone(np.ones(3)), payments=np.full(3, 5.0), sensitivities=np.full(3, 0.5)), 100
    made = simulate(BudgetedSelector(5.0, strict=True), people, rounds, 1).members
    return _row("starved", len(made), rounds)
