"""The exact optimum of P2 for three clients, by average-cost dynamic programming over all their ages."""

from dataclasses import dataclass

import numpy as np

from aoi_fl.lab.experiments.oracles.packing import packings
from aoi_fl.science.budget import choose
from aoi_fl.science.types import Floats
from aoi_fl.science.whittle import abs_index, maxpack_index, whittle_index

CLIENTS = 3
_TIE = 1e-9
_ITERATIONS = 500


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
        costs.append(float(instance.sensitivities @ ages) / CLIENTS)
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
    side = cap + 1
    ages = np.stack(np.unravel_index(np.arange(side**CLIENTS), (side,) * CLIENTS))
    ages = ages[:, ages.min(axis=0) == 0]  # every round refreshes a client
    codes = np.ravel_multi_index(tuple(ages), (side,) * CLIENTS)
    number = np.full(side**CLIENTS, -1)
    number[codes] = np.arange(codes.size)
    after = [
        np.where(chosen[:, None], 0, np.minimum(ages + 1, cap))
        for chosen in packings(instance.payments, instance.budget)
    ]
    successors = np.array([number[np.ravel_multi_index(tuple(a), (side,) * CLIENTS)] for a in after])
    costs = np.array([instance.sensitivities @ a / CLIENTS for a in after])

    # Howard's policy iteration; a policy's chain is deterministic.
    states, action = np.arange(codes.size), np.zeros(codes.size, dtype=np.int64)
    for _ in range(_ITERATIONS):
        jump = successors[action, states]
        mean, bias = _evaluate(jump, costs[action, states])
        # First a lower mean, then, where none is to be had, a lower bias.
        means = mean[successors]
        lower = means.min(axis=0) < mean - 1e-12
        scores = np.where(means <= mean + 1e-12, costs + bias[successors], np.inf)
        gained = scores.min(axis=0) < mean + bias - 1e-10
        better = np.where(lower, means.argmin(axis=0), np.where(gained & ~lower.any(), scores.argmin(axis=0), action))
        if (better == action).all():
            break
        action = better
    else:
        raise ArithmeticError("policy iteration did not settle")
    # The certificate of a floor: no step's cost, reduced by the bias, is below the mean.
    if (costs + bias[successors] - bias).min() < mean[0] - _TIE:
        raise ArithmeticError("the policy found is not optimal")
    state = 0
    for _ in range(codes.size):
        state = jump[state]
    return float(mean[0]), int(ages[:, _cycle(jump, state)].max())


def _cycle(jump, state):
    """Return the cycle that a state lies on."""
    cycle = [state]
    while jump[cycle[-1]] != state:
        cycle.append(int(jump[cycle[-1]]))
    return cycle


def _evaluate(jump, cost):
    """Return mean cost and bias of every state of a deterministic chain, (s,) each."""
    ahead = jump.copy()
    for _ in range(int(np.ceil(np.log2(jump.size))) + 1):
        ahead = ahead[ahead]  # far enough to be on a cycle
    mean, bias, known = np.zeros(jump.size), np.zeros(jump.size), np.zeros(jump.size, dtype=np.bool_)
    for root in np.unique(ahead):
        if known[root]:
            continue
        cycle = _cycle(jump, root)
        mean[cycle] = cost[cycle].mean()
        known[cycle] = True
        for state in cycle[:0:-1]:
            bias[state] = cost[state] - mean[root] + bias[jump[state]]
    while not known.all():
        new = ~known & known[jump]
        mean[new] = mean[jump[new]]
        bias[new] = cost[new] - mean[new] + bias[jump[new]]
        known |= new
    return mean, bias
