"""The exact optimum of P2 for three clients, by average-cost dynamic programming over all their ages."""

from dataclasses import replace

import numpy as np

from aoi_fl.lab.experiments.oracles.packing import packings
from aoi_fl.science.selection import everyone

CLIENTS = 3
_TIE = 1e-9


def draw_instance(seed):
    """Return three clients with the payments of Section 5, and a budget that pays for each, not for all at once."""
    rng = np.random.default_rng(seed)
    while True:
        payments = rng.uniform(5, 15, CLIENTS).round(2)
        budget = round(float(rng.uniform(payments.max(), payments.sum())), 2)
        sensitivities = rng.uniform(0.02, 1, CLIENTS)
        if payments.max() <= budget < payments.sum():
            return replace(everyone(np.ones(CLIENTS)), payments=payments, sensitivities=sensitivities), budget


def long_run_p2(people, selector):
    """Return the exact long-run P2 of an index policy from age 0: the mean over the cycle that it falls into."""
    ages, costs = people.ages, []
    seen = {}
    while tuple(ages.tolist()) not in seen:
        seen[tuple(ages.tolist())] = len(costs)
        chosen = selector.select(0, replace(people, ages=ages)).clients
        ages = ages + 1
        ages[chosen] = 0
        costs.append(people.sensitivities @ ages / CLIENTS)
    return float(np.mean(costs[seen[tuple(ages.tolist())] :]))


def exact_optimum(people, budget):
    """Return the least long-run P2 from age 0.

    A cap on ages can only lower the cost. If the optimal cycle from age 0 never touches it, the value is exact;
    otherwise the cap is doubled. Refreshing more never hurts, so only maximal packings are actions.
    """
    cap = 8
    while True:
        mean, oldest = _solve(people, budget, cap)
        if oldest < cap:
            return mean
        cap *= 2


def _solve(people, budget, cap):
    """Return the least mean cost from age 0 with ages capped, and the oldest age on the cycle that attains it."""
    shape = (cap + 1,) * CLIENTS
    ages = np.indices(shape).reshape(CLIENTS, -1)
    ages = ages[:, ages.min(axis=0) == 0]  # every round refreshes a client
    number = np.full(shape, -1)
    number[tuple(ages)] = np.arange(ages.shape[1])
    sets = packings(people.payments, budget)
    after = [np.where(chosen[:, None], 0, np.minimum(ages + 1, cap)) for chosen in sets]
    successors = np.array([number[tuple(a)] for a in after])
    costs = np.array([people.sensitivities @ a / CLIENTS for a in after])

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
