"""What the theorems say and what an independent computation finds: Var[X], thresholds of an index, and a ratio."""

import math

import numpy as np

from aoi_fl.lab.experiments.harness.setting import ages_of, section5
from aoi_fl.lab.experiments.oracles.exact import printed_variance, programmed_variance, selecting_ages
from aoi_fl.science.budget import BudgetedSelector
from aoi_fl.science.load import measure
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.objective import p2
from aoi_fl.science.selection import OldestAgeSelector, everyone
from aoi_fl.science.simulate import simulate

BUDGETS = (25, 40, 55, 70)
_GRID = ((10, 3), (10, 4), (20, 7), (50, 5), (93, 7), (100, 15), (100, 30), (100, 60), (100, 99))
_AGES = (1, 2, 3, 4, 5, 6, 7, 10)
_OLDEST = 30  # age at which value iteration forces a refresh; thresholds stay below 20


def load_variances():
    """Return Var[X] as printed, of the table, by linear programme, of random and of oldest-age selection."""
    rows = []
    for n, k in _GRID:
        oldest = _oldest_age_variance(n, k)
        for m in _AGES:
            rows.append(
                {
                    "seed": 1,
                    "clients": n,
                    "per_round": k,
                    "max_age": m,
                    "printed": printed_variance(n, k, m),
                    "table": MarkovPolicy.optimal(n, k, m).interval_variance,
                    "programme": programmed_variance(n, k, m),
                    "random": n * (n - k) / k**2,
                    "oldest": oldest,
                },
            )
    return rows


def _oldest_age_variance(clients, per_round):
    """Return Var[X] of oldest-age selection over 2000 rounds."""
    population = everyone(np.ones(clients, dtype=np.int64))
    return measure(simulate(OldestAgeSelector(per_round, 1), population, 2000, 1)).interval_variance or 0.0


def thresholds(seeds):
    """Return for single clients with random φ, p, B and λ: eq. (25) without bracket, its floor, and the optimum.

    Eq. (25) of Xu et al. 2024 has the age H = ⌊−½ + √(¼ + 2λp/(Bφ))⌋ from which on a refresh is worth the charge λ;
    print lost the floor.
    """
    rngs = (np.random.default_rng([seed, 25]) for seed in seeds)
    sensitivity, payment, budget, wanted = np.array(
        [(1.0 - rng.random(), rng.uniform(5, 15), rng.choice(BUDGETS), rng.uniform(0.2, _OLDEST - 10)) for rng in rngs]
    ).T
    cost = budget * sensitivity / payment
    charge = cost * wanted * (wanted + 1) / 2  # so that thresholds are spread evenly
    selecting = selecting_ages(cost, charge, _OLDEST)
    roots = -0.5 + np.sqrt(0.25 + 2 * charge / cost)
    return [
        {
            "seed": seed,
            "root": root,
            "floor": int(root),
            "optimal": (first := int(selects.argmax())),
            "structured": int(selects[first:].all()),
        }
        for seed, root, selects in zip(seeds, roots, selecting, strict=True)
    ]


def ratio(clients, budget, seed, rounds):
    """Return Theorem 3's denominator and the lower bound L_B it rests on, with either M, beside WICS's P2.

    L_B = Nφ_min/(2M) − Σφ/(2N) has the denominator's sign. P2 is measured over the later half of the rounds, and only
    where a denominator is positive.
    """
    table = section5(clients, seed)
    phi, payments = table.sensitivities, table.payments
    slots = {"printed": math.floor(budget / payments.max())}
    slots["affordable"] = int((np.cumsum(np.sort(payments)) <= budget).sum())
    row = {"seed": seed, "clients": clients, "budget": budget}
    for name, m in slots.items():
        denominator = clients**2 * phi.min() - m * phi.sum()
        row[f"denominator {name}"] = denominator
        row[f"floor {name}"] = denominator / (2 * m * clients)
        row[f"ratio {name}"] = 2 * m * (9 * clients - 1) * phi.sum() / denominator if denominator > 0 else None
    row["p2"] = None
    if row["denominator printed"] > 0:
        ages = ages_of(simulate(BudgetedSelector(budget), table, rounds, seed))
        row["p2"] = p2(ages[rounds // 2 :].mean(axis=0), phi)
    return row
