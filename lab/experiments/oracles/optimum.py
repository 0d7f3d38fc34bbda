"""The exact optimum of P2 for three clients, by average-cost dynamic programming over all their ages."""

from dataclasses import dataclass

import numpy as np

from aoi_fl.lab.experiments.oracles.packing import packings
from aoi_fl.science.budget import choose
from aoi_fl.science.types import Floats
from aoi_fl.science.whittle import abs_index, maxpack_index, whittle_index

CLIENTS = 3
_TIE = 1e-9


@dataclass(frozen=True)
class Instance:
    """Payments and sensitivities φ of three clients, (3,) each, and the budget of a round."""

    payments: Floats
    sensitivities: Floats
    budget: float


POLICIES = {
    "wics": lambda ages, case: whittle_index(ages, case.payments, case.sensitivities, case.budget),
    "abs": lambda ages, case: abs_index(ages, case.payments, case.sensitivities),
    "maxpack": lambda ages, case: maxpack_index(ages),
}


def draw_instance(seed):
    """Return an instance with the payments of Section 5, each client affordable, not all of them at once."""
    rng = np.random.default_rng(seed)
    while True:
        payments = rng.uniform(5, 15, CLIENTS).round(2)
        budget = round(float(rng.uniform(payments.max(), payments.sum())), 2)
        sensitivities = rng.uniform(0.02, 1, CLIENTS)
        if payments.max() <= budget < payments.sum():
            return Instance(payments, sensitivities, budget)


def long_run_p2(instance, index):
    """Return the exact long-run P2 of an index policy from age 0: the mean over the cycle that it falls into."""
    ages, costs = np.zeros(CLIENTS, dtype=np.int64), []
    seen = {}
    while tuple(ages.tolist()) not in seen:
        seen[tuple(ages.tolist())] = len(costs)
        chosen = choose(index(ages, instance), instance.payments, instance.budget)
        ages = ages + 1
        ages[chosen] = 0
        costs.append(instance.sensitivities @ ages / CLIENTS)
    return float(np.mean(costs[seen[tuple(ages.tolist())] :]))


def exact_optimum(instance):
    """Return the least long-run P2 from age 0.

    A cap on ages can only lower the cost. If the optimal cycle from age 0 never touches it, the value is exact;
    otherwise the cap is doubled. Refreshing more never hurts, so only maximal packings are actions.
    """
    cap = 8
    while True:
        mean, oldest = _solve(instance, cap)
        if oldest < cap:
            return mean
        cap *= 2


def _solve(instance, cap):
    """Return the least mean cost from age 0 with ages capped, and the oldest age on the cycle that attains it."""
    shape = (cap + 1,) * CLIENTS
    ages = np.indices(shape).reshape(CLIENTS, -1)
    ages = ages[:, ages.min(axis=0) == 0]  # every round refreshes a client
    number = np.full(shape, -1)
    number[tuple(ages)] = np.arange(ages.shape[1])
    after = [
        np.where(chosen[:, None], 0, np.minimum(ages + 1, cap))
        for chosen in packings(instance.payments, instance.budget)
    ]
    successors = np.array([number[tuple(a)] for a in after])
    costs = np.array([instance.sensitivities @ a / CLIENTS for a in after])

    # Value iteration, damped by one half since the optimal chain is periodic. The least mean cost lies between the
    # smallest and the largest gain of a step.
    value = np.zeros(ages.shape[1])
    while True:
        paid = costs + value[successors]
        gains = paid.min(axis=0) - value
        if np.ptp(gains) < _TIE:
            break
        value += gains / 2
    action, states = paid.argmin(axis=0), np.arange(ages.shape[1])
    jump, state = successors[action, states], 0
    for _ in states:
        state = jump[state]
    cycle = [state]
    while jump[cycle[-1]] != state:
        cycle.append(jump[cycle[-1]])
    return costs[action, states][cycle].mean(), ages[:, cycle].max()
