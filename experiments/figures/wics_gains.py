"""How WICS's ages compare with its rivals' on the same instances."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter

import numpy as np

from aoi_fl.experiments.harness.base import Row
from aoi_fl.experiments.harness.stats import Interval, Ratio, interval, ratio

RIVALS = ("abs", "maxpack", "random-budget")
CLIENTS, BUDGETS = (10, 20, 30, 40), (25, 40, 55, 70)
MEASURES = {"p2": "P2", "weighted_age": "size-weighted average age"}
MEANT = {"p2 meant": "P2, φ = share of the data · rate of staleness"}  # the paper draws φ at random


def chosen(rows: Sequence[Row], clients: int | None, budget: int | None) -> list[Row]:
    """Return the rows of a setting, None standing for every N or B."""
    return [r for r in rows if clients in (None, r["clients"]) and budget in (None, r["budget"])]


def gain(
    rows: Sequence[Row], measure: str, rival: str, clients: int | None = None, budget: int | None = None
) -> Interval:
    """Return by how many percent WICS is above a rival (below, if negative), the mean over paired instances.

    Over several settings an instance counts by its mean over them.
    """

    def percent(row: Row) -> float:
        rivals = row[f"{measure} {rival}"]
        return 100 * float(row[f"{measure} wics"] / rivals - 1 if rivals else 0.0)

    return interval(by_seed(rows, clients, budget, percent))


def above_floor(rows: Sequence[Row]) -> list[float]:
    """Return by how many percent WICS's P2 is above the floor, instance by instance, each summed over the settings."""
    found, floors = (by_seed(rows, None, None, itemgetter(column)) for column in ("p2 wics", "floor"))
    return [100 * (p2_ / floor - 1) for p2_, floor in zip(found, floors, strict=True)]


def by_seed(rows: Sequence[Row], clients: int | None, budget: int | None, value: Callable[[Row], float]) -> list[float]:
    """Return a value of each instance, its mean over the settings chosen."""
    found: dict[int, list[float]] = {}
    for row in chosen(rows, clients, budget):
        found.setdefault(row["seed"], []).append(value(row))
    return [float(np.mean(values)) for values in found.values()]


def _age(row: Row, policy: str) -> float:
    return float(row[f"weighted_age {policy}"])


def above_random(
    rows: Sequence[Row], policy: str, clients: int | None = None, budget: int | None = None
) -> list[float]:
    """Return how far a policy's size-weighted age is above Random's, instance by instance."""
    return by_seed(rows, clients, budget, lambda row: _age(row, policy) - _age(row, "random-budget"))


def difference(rows: Sequence[Row], policy: str, clients: int, budget: int) -> Interval:
    """Return how far a policy's size-weighted age is above Random's in one setting."""
    return interval(above_random(rows, policy, clients, budget))


def distances(rows: Sequence[Row], policy: str, clients: int | None = None, budget: int | None = None) -> list[float]:
    """Return how far a policy's size-weighted age is from WICS's, on either side, instance by instance."""
    return by_seed(rows, clients, budget, lambda row: abs(_age(row, policy) - _age(row, "wics")))


def nearest(rows: Sequence[Row], cells: Sequence[tuple[int, int]]) -> dict[str, int]:
    """Count the settings in which a rival is nearer to WICS than either other is, beyond chance, in pairs."""
    count = dict.fromkeys(RIVALS, 0)
    for n, b in cells:
        far = {p: np.array(distances(rows, p, n, b)) for p in RIVALS}
        for p in RIVALS:
            others = [interval((far[p] - far[q]).tolist()) for q in RIVALS if q != p]
            count[p] += all(d.high < 0 for d in others)
    return count


def further(rows: Sequence[Row], policy: str, cells: Sequence[tuple[int, int]]) -> list[Interval]:
    """Return by how much a policy's distance from WICS exceeds each other rival's, setting by setting, in pairs."""
    return [
        interval(np.subtract(distances(rows, policy, n, b), distances(rows, other, n, b)).tolist())
        for other in RIVALS
        if other != policy
        for n, b in cells
    ]


def rises(rows: Sequence[Row], divided: bool) -> list[Interval]:
    """Return by how much WICS's size-weighted age rises from one N to the next, instance by instance.

    ``divided``: with the factor 1/N of the paper's formula. Instances of two N share a seed and nothing else.
    """
    steps = []
    for budget in BUDGETS:
        levels = [
            {row["seed"]: row["weighted_age wics"] * (1 if divided else n) for row in chosen(rows, n, budget)}
            for n in CLIENTS
        ]
        steps += [interval([of[s] - before[s] for s in of if s in before]) for before, of in pairwise(levels)]
    return steps


def flat(found: Mapping[str, Sequence[Interval]]) -> list[Interval]:
    """Return the differences from all rivals in one list."""
    return [difference for of_one in found.values() for difference in of_one]


def sums(rows: Sequence[Row], measure: str, rival: str, policy: str = "wics") -> Ratio:
    """Return WICS's sum over all instances and settings as a share of a rival's; an instance counts once."""
    ours, theirs = (by_seed(rows, None, None, itemgetter(f"{measure} {p}")) for p in (policy, rival))
    return ratio(ours, theirs)


def count(found: Sequence[Interval], wanted: int) -> int:
    """Return how many differences lie beyond chance on one side of 0."""
    return sum(difference.beyond(wanted) for difference in found)
