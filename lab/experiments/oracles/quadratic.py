"""Both convergence theorems on problems where every constant is known: quadratics on the line, F_i(θ) = ½ a_i (θ−c_i)².

The constants: a_i in [1, 2], so μ = 1 and L = 2; F* and Γ are closed forms.
"""

import numpy as np
from scipy import stats

from aoi_fl.config.policies import BUDGETED
from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.oracles.bounds import FedAvgConstants, aged_bound, fedavg_bound
from aoi_fl.lab.experiments.oracles.weight_laws import weight_law
from aoi_fl.lab.rivals.power_of_choice import PowerOfChoice
from aoi_fl.science.budget import BudgetedSelector
from aoi_fl.science.convergence import ConvergenceConstants
from aoi_fl.science.selection import everyone
from aoi_fl.science.simulate import simulate

CLIENTS, PER_ROUND = 40, 6
_KEYS = {"num-clients": CLIENTS, "clients-per-round": PER_ROUND}
POLICIES = setting.POLICIES
CANDIDATES = (PER_ROUND, 12, 24, CLIENTS)  # of power-of-choice; the first is random selection
RATES = {"theorem": 1, "proof": 2}  # what divides 1/(μ(t+γ)): nothing, or the steps K, as in the proof
_SMOOTH, _CONVEX, _STEPS, _NOISE = 2.0, 1.0, 2, 0.5
_CURVES, _CENTRES, _START = np.linspace(1, 2, CLIENTS), np.linspace(-2, 2, CLIENTS), 4.0
_SIZES, _SHARES = np.ones(CLIENTS, dtype=np.int64), np.full(CLIENTS, 1 / CLIENTS)
_FEDAVG = FedAvgConstants(_SMOOTH, _CONVEX, _NOISE**2, 13.0**2, _STEPS, PER_ROUND)
_TAU, _RATE, _BUDGET, _GROWTH = 10, 0.005, 40.0, 0.3  # Section 5.1 of Xu et al.; gradients' variance a round of age


def excess(theta, curves, centres, shares):
    """Return F(θ) − F* = ½ Σ q a · (θ−θ*)², for θ of any shape."""
    pull = shares * curves
    return pull.sum() * (theta - pull @ centres / pull.sum()) ** 2 / 2


def federated_averaging(seeds, marks):
    """Run federated averaging under the policies of Javani & Wang, equal sizes, with Theorem 2's bound beside it.

    Gradients carry a noise of ±½, the same for all policies of a seed. Iterates stay within [−4, 4], so G² = 13² bounds
    their squares. ρ_ = ρ̄ = 1, since E[ω] = q under all four policies. An empty round leaves the model.
    """
    best = _CURVES @ _CENTRES / _CURVES.sum()
    gap = _SHARES @ (_CURVES * (best - _CENTRES) ** 2) / 2
    start = excess(_START, _CURVES, _CENTRES, _SHARES)
    signs = np.array([_signs(seed, max(marks)) for seed in seeds])
    rows = []
    for policy in POLICIES:
        weights = np.stack([setting.weights_of(_history(policy, max(marks), seed)) for seed in seeds])
        sigma = weight_variance(policy)
        for rate, divisor in RATES.items():
            theta = np.full(len(seeds), _START)
            for t in range(max(marks)):
                local = _trained(np.repeat(theta[:, None], CLIENTS, axis=1), t, signs[:, t], divisor)
                taken = weights[:, t]
                theta = np.where(taken.any(axis=1), (taken * local).sum(axis=1), theta)
                if t + 1 in marks:
                    bound = fedavg_bound(
                        _FEDAVG,
                        t + 1,
                        distance=(_START - best) ** 2,
                        weight_variance=sigma,
                        gap=gap,
                    )
                    found = excess(theta, _CURVES, _CENTRES, _SHARES)
                    rows += [
                        _row(seed, policy, t + 1, e, bound, start) | {"rate": rate, "sigma": sigma}
                        for seed, e in zip(seeds, found, strict=True)
                    ]
    return rows


def weight_variance(policy):
    """Return Σ of a policy (Theorems 3 to 5)."""
    return weight_law(policy, _SIZES, PER_ROUND).variance


def choosing_by_loss(seeds, rounds):
    """Run federated averaging under power-of-choice: of d random candidates, the k of the largest losses train.

    The draws of candidates make E[ω] a function of the losses' ranks, so ρ of Javani & Wang 2025, eq. (24), is exact at
    each model; F_k* = 0. d = k is random selection, where ρ = 1. Noise and learning rate are those of
    :func:`federated_averaging`. A row has the least ρ along the run, the first round with at most a tenth of the error
    at the start (the number of rounds and one more if there is none), and the error at the end.

    Source: Cho, Wang & Joshi 2022, power-of-choice (π_pow-d).
    """
    start = excess(_START, _CURVES, _CENTRES, _SHARES)
    losses = np.empty(CLIENTS)  # of all clients at the round's model
    rows = []
    for seed in seeds:
        signs = _signs(seed, rounds)
        for candidates in CANDIDATES:
            expected = expected_weights(candidates)
            theta, skews, errors = _START, [], []
            rule = PowerOfChoice(PER_ROUND, seed, candidates=candidates, ask=lambda round_, who: losses[who])
            for t in range(rounds):
                losses[:] = _CURVES * (theta - _CENTRES) ** 2 / 2
                skews.append(expected @ np.sort(losses)[::-1] / losses.mean())
                selection = rule.select(t + 1, everyone(_SIZES))
                local = _trained(np.full(CLIENTS, theta), t, signs[t])
                theta = selection.weights @ local[selection.clients]
                errors.append(excess(theta, _CURVES, _CENTRES, _SHARES))
            there = np.flatnonzero(np.array(errors) <= start / 10)
            rows.append(
                {
                    "seed": seed,
                    "candidates": candidates,
                    "skew": min(skews),
                    "excess": errors[-1],
                    "start": start,
                    "tenth": int(there[0]) + 1 if there.size else rounds + 1,
                }
            )
    return rows


def _signs(seed, rounds):
    """Return (rounds, K, n) the signs of the gradients' noise, the same for all policies of a seed."""
    drawn = np.random.default_rng([seed, 7]).choice([-1, 1], (rounds, _STEPS, CLIENTS))
    return drawn.astype(np.int8)


def _trained(local, t, signs, divisor=1):
    """Return (…, n) the clients' models after the K steps of round t, with the round's signs (…, K, n)."""
    for step in range(_STEPS):
        pull = _CURVES * (local - _CENTRES) + _NOISE * signs[..., step, :]
        local = local - pull / (divisor * (t + _FEDAVG.delay))
    return local


def expected_weights(candidates):
    """Return (n,) E[ω] under power-of-choice by rank, the largest loss first.

    A client counts 1/k if it is a candidate and of the r clients with larger losses fewer than k are candidates, too.
    """
    larger = np.arange(CLIENTS)
    chosen = stats.hypergeom.cdf(PER_ROUND - 1, CLIENTS - 1, larger, candidates - 1) * candidates / CLIENTS
    return chosen / PER_ROUND


def ageing(seeds, marks):
    """Train on ageing data as in Section 2 of Xu et al., all clients taking part, and Theorem 1's bound beside it.

    N, B, τ, η̃ and ω_0 = 0 are the paper's, sizes and payments an instance of its Section 5; a gradient's noise has a
    variance of 0.3 a round of age. G_i² is the largest squared gradient on the way, as Assumption 4 asks for.
    """
    rows = []
    constants = ConvergenceConstants(_SMOOTH, _CONVEX, _RATE, _TAU)
    for seed in seeds:
        table = setting.section5(10, seed)
        shares = table.sizes / table.sizes.sum()
        generator = np.random.default_rng([seed, 8])
        curves, centres = generator.uniform(1, 2, 10), generator.uniform(0, 4, 10)
        best = shares * curves @ centres / (shares @ curves)
        start = excess(0.0, curves, centres, shares)
        for policy, index in BUDGETED.items():
            player = BudgetedSelector(_BUDGET, index, seed)
            ages = setting.ages_of(simulate(player, table, max(marks), seed))
            noise = np.random.default_rng([seed, 9])
            theta, seen = 0.0, (curves * (best - centres)) ** 2
            for t in range(max(marks)):
                local = np.full(10, theta)
                for _ in range(_TAU):
                    true = curves * (local - centres)
                    seen = np.maximum(seen, true**2)
                    local -= _RATE * (true + np.sqrt(_GROWTH * ages[t]) * noise.standard_normal(10))
                theta = shares @ local
                if t + 1 in marks:
                    bound = aged_bound(
                        constants,
                        table.sizes,
                        ages[: t + 1],
                        distance=best**2,
                        gradient_square=seen,
                        gradient_growth=np.full(10, _GROWTH),
                    )
                    found = excess(theta, curves, centres, shares)
                    rows.append(_row(seed, policy, t + 1, found, bound, start))
    return rows


def _row(seed, policy, round_, found, bound, start):
    return {"seed": seed, "policy": policy, "round": round_, "excess": found, "bound": bound, "start": start}


def _history(policy, rounds, seed):
    return simulate(setting.policy(policy, seed, **_KEYS), everyone(_SIZES), rounds, seed)
