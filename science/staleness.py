"""The freshness of the clients' data in a budgeted history, and its cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from aoi_fl.science.ageing import AgeingCost, ageing_cost
from aoi_fl.science.history import History
from aoi_fl.science.names import Ageing
from aoi_fl.science.objective import lagrangian_floor, p2, weighted_average_age
from aoi_fl.science.types import Floats, Ints


@dataclass(frozen=True)
class Freshness:
    """The freshness of the clients' data under a budget.

    Attributes
    ----------
    p2 : the objective P2, eq. (11) of Xu et al. 2024
    weighted_age : the n_i/n-weighted average age of their Fig. 10
    spent : by the rounds, in the budget's unit: ``mean`` and ``max``
    floor : the Lagrangian floor under P2 in the long run; a short run from low ages can stay below it
    ageing : Σ φ_i f(Δ_i)/N, averaged over rounds, which WICS minimises for an ageing cost f; P2 for f(j) = j
    """

    p2: float
    weighted_age: float
    spent: dict[str, float]
    floor: float
    ageing: float


def mean_ages(history: History, cost: AgeingCost | None = None) -> Floats:
    """Return each client's age after a round's refreshes, averaged over rounds 1 … R; (n,), zeros if R = 0.

    With an ageing cost f (:mod:`aoi_fl.science.ageing`) f(age) is averaged instead.
    """
    total = np.zeros(history.clients)
    for ages in islice(history.ages(), 1, None):
        total += ages if cost is None else cost(ages.astype(np.float64))
    return total / max(history.rounds, 1)


def measure_freshness(
    history: History,
    payments: Floats,
    sensitivities: Floats,
    sizes: Ints,
    budget: float,
    ageing: Ageing,
    spent: Sequence[float],
) -> Freshness:
    """Measure a history of R ≥ 1 rounds with selected clients that refreshed their data for their payments.

    ``spent`` is each round's spending.
    """
    ages = mean_ages(history)
    return Freshness(
        p2=p2(ages, sensitivities),
        weighted_age=weighted_average_age(ages, sizes),
        spent={"mean": float(np.mean(spent)), "max": max(spent)},
        floor=lagrangian_floor(payments, sensitivities, budget),
        ageing=p2(mean_ages(history, ageing_cost(ageing)), sensitivities),
    )
