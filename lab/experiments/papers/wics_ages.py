"""How old data become under a budget: P2, which WICS minimises, and the size-weighted average age of Fig. 10."""

from dataclasses import replace
from itertools import chain, pairwise
from operator import itemgetter

import numpy as np

from aoi_fl.config.policies import BUDGETED
from aoi_fl.lab.experiments.harness import base
from aoi_fl.lab.experiments.harness.base import Instances, having
from aoi_fl.lab.experiments.harness.setting import section5
from aoi_fl.lab.experiments.harness.stats import difference, interval, paired_curves, ratio
from aoi_fl.lab.experiments.harness.verdicts import beyond, side
from aoi_fl.protocol.clients import section5_instance
from aoi_fl.science.ageing import ageing_cost
from aoi_fl.science.budget import BudgetedSelector
from aoi_fl.science.objective import lagrangian_floor, p2, weighted_average_age
from aoi_fl.science.simulate import simulate
from aoi_fl.science.staleness import mean_ages

RIVALS = ("abs", "maxpack", "random-budget")
CLIENTS, BUDGETS = (10, 20, 30, 40), (25, 40, 55, 70)
MEASURES = {"p2": "P2", "weighted_age": "size-weighted average age"}
MEANT = {"p2 meant": "P2, φ = share of the data · rate of staleness"}  # the paper draws φ at random


def gain(rows, measure, rival, **where):
    """Return by how many percent WICS is above a rival (below, if negative), the mean over paired instances.

    Over several settings an instance counts by its mean over them.
    """

    def percent(row):
        rivals = row[f"{measure} {rival}"]
        return 100 * (row[f"{measure} wics"] / rivals - 1 if rivals else 0.0)

    return interval(by_seed(rows, percent, **where))


def by_seed(rows, value, **where):
    """Return a value of each instance, its mean over the settings chosen."""
    return [np.mean([value(row) for row in run]) for run in base.by_seed(rows, **where).values()]


def _age(row, policy):
    return row[f"weighted_age {policy}"]


def above_random(rows, policy, **where):
    """Return how far a policy's size-weighted age is above Random's, instance by instance."""
    return by_seed(rows, lambda row: _age(row, policy) - _age(row, "random-budget"), **where)


def distances(rows, policy, **where):
    """Return how far a policy's size-weighted age is from WICS's, on either side, instance by instance."""
    return by_seed(rows, lambda row: abs(_age(row, policy) - _age(row, "wics")), **where)


def further(rows, policy, cell):
    """Return by how much a policy's distance from WICS exceeds each other rival's in a setting, in pairs."""
    far = distances(rows, policy, **cell)
    return [difference(far, distances(rows, other, **cell)) for other in RIVALS if other != policy]


def rises(rows, divided):
    """Return by how much WICS's size-weighted age rises from one N to the next, instance by instance.

    ``divided``: with the factor 1/N of the paper's formula. Instances of two N share a seed and nothing else.
    """
    steps = []
    for budget in BUDGETS:
        there = having(rows, budget=budget)
        ages = [row | {"age": _age(row, "wics") * (1 if divided else row["clients"])} for row in there]
        levels = paired_curves(ages, "clients", CLIENTS, "age", sum)
        steps += [difference(levels[more], levels[few]) for few, more in pairwise(CLIENTS)]
    return steps


def sums(rows, measure, rival, policy="wics"):
    """Return WICS's sum over all instances and settings as a share of a rival's; an instance counts once."""
    return ratio(*(by_seed(rows, itemgetter(f"{measure} {p}")) for p in (policy, rival)))


_AGEINGS = {"quadratic": "j²", "root": "√j"}  # costs of age beside the paper's
_BEATING = ("abs", "maxpack", "wics")  # these should beat Random


class WicsAges(Instances):
    """Fig. 10."""

    factors = {"clients": CLIENTS, "budget": BUDGETS}

    def instance(self, unit, seed, options):
        """Simulate all policies on an instance."""
        rounds, budget = self.settings(options)["rounds"], float(unit["budget"])
        table, population = section5_instance(unit["clients"], seed), section5(unit["clients"], seed)
        meant = replace(population, sensitivities=table.sizes / table.sizes.sum() * table.staleness)

        def ages(people, cost="linear", index="whittle", **how):
            player = BudgetedSelector(budget, index, seed, **how)
            return mean_ages(simulate(player, people, rounds, seed), ageing_cost(cost))

        row = {"floor": lagrangian_floor(table.payments, table.sensitivities, unit["budget"], rounds)}
        for policy, index in BUDGETED.items():
            own = ages(population, index=index)
            row[f"p2 {policy}"] = p2(own, table.sensitivities)
            row[f"weighted_age {policy}"] = weighted_average_age(own, table.sizes)
            row[f"p2 meant {policy}"] = p2(ages(meant, index=index), meant.sensitivities)
        for ageing in _AGEINGS:
            for made_for in ("linear", ageing):
                row[f"{ageing} {made_for}"] = p2(ages(population, ageing, ageing=made_for), table.sensitivities)
        return {column: float(f"{value:.9g}") for column, value in row.items()}

    def conclude(self, rows, settings):
        cells = [{"clients": n, "budget": b} for n in CLIENTS for b in BUDGETS]
        gains = {m: {p: [gain(rows, m, p, **cell) for cell in cells] for p in RIVALS} for m in MEASURES}
        apart = {p: [further(rows, p, cell) for cell in cells] for p in RIVALS}
        random = {p: [interval(above_random(rows, p, **cell)) for cell in cells] for p in _BEATING}
        printed, summed = rises(rows, divided=True), rises(rows, divided=False)

        def lower(groups):
            return side([*chain.from_iterable(groups)], -1)

        def above(measure):
            found = gains[measure]
            return "; ".join(
                f"{p} {sums(rows, measure, p).percent()} (lower beyond chance in {beyond(found[p], -1)} of "
                f"{len(cells)} settings, higher in {beyond(found[p], 1)})"
                for p in RIVALS
            )

        claims = {
            "p2": (
                f"P2 above each rival's, ratio of sums: {above('p2')}",
                lower(gains["p2"].values()),
            ),
            "age": (
                f"above each rival's, ratio of sums: {above('weighted_age')}",
                lower(gains["weighted_age"].values()),
            ),
            "closest": (
                "nearest beyond chance, by the distance on the same instance: "
                + ", ".join(
                    f"{p} in {sum(all(d.high < 0 for d in of) for of in apart[p])} of {len(cells)} settings, its mean "
                    f"distance {interval(distances(rows, p)).show(4)}"
                    for p in RIVALS
                ),
                lower(apart["abs"]),
            ),
            "random": (
                "difference from Random on the same instance: "
                + ", ".join(
                    f"{p} {interval(above_random(rows, p)).show(4)} (lower beyond chance in {beyond(random[p], -1)} of "
                    f"{len(cells)} settings, higher in {beyond(random[p], 1)})"
                    for p in _BEATING
                ),
                lower(random.values()),
            ),
            "rises": (
                f"under WICS, from one N to the next at equal B, the paper's formula rises beyond chance in "
                f"{beyond(printed, 1)} of {len(printed)} steps and falls in {beyond(printed, -1)}; without its factor "
                f"1/N, as Σ (n_i/n) Δ̄_i, it rises in {beyond(summed, 1)}",
                side(printed, 1),
            ),
        }
        lines = [
            [title, p, sums(rows, measure, p).percent(), gain(rows, measure, p).show(1, " %")]
            for measure, title in {**MEASURES, **MEANT}.items()
            for p in RIVALS
        ]
        costs = [
            [f"{ageing}, f(j) = {formula}", sums(rows, ageing, "linear", ageing).percent()]
            for ageing, formula in _AGEINGS.items()
        ]
        ratios = zip(*(by_seed(rows, itemgetter(column)) for column in ("p2 wics", "floor")), strict=True)
        floor = interval([100 * (found / floor - 1) for found, floor in ratios]).show(1, " %")
        return self.concluded(claims, lines, costs, floor=floor, instances=len(rows) // len(cells), **settings)
