"""A floor under P2 that uses the sets of clients that fit into one round, for few clients.

References
----------
Xu, Xiao, Wu, Wu, Zhou & Sun 2024, Age-of-Information-Aware Federated Learning, J. Comput. Sci. Technol.
"""

import numpy as np
from scipy import optimize


def packings(payments, budget):
    """Return every maximal set of clients that the budget pays for in one round, as rows of a boolean matrix."""
    clients = payments.size
    sets = (np.arange(2**clients)[:, None] >> np.arange(clients) & 1).astype(bool)
    # A hair above B: a set that fits by decimal arithmetic must not be lost to binary rounding, and a set too many
    # only lowers the bound.
    fits = sets @ payments <= budget * (1 + 1e-12)
    extendable = np.zeros(sets.shape[0], dtype=bool)
    for client in range(clients):
        without = np.flatnonzero(~sets[:, client])
        extendable[without] |= fits[without + (1 << client)]
    return sets[fits & ~extendable]


def packing_bound(payments, sensitivities, budget):
    """Return a floor under the long-run P2 that uses the sets of clients that fit into one round, for small N.

    The linear programme: over frequencies y_S ≥ 0 of the maximal packings S with Σ y_S = 1, and mean ages a_i,
    minimise Σ φ_i a_i / N subject to a_i ≥ h − h(h+1)/2 · x_i for h = 0, 1, 2, …, where x_i = Σ_{S∋i} y_S.

    It is a floor for any policy because (1) a round's set lies in some maximal packing, and (2) a spell of X rounds
    adds X(X−1)/2 to the sum of ages, and (X−h)(X−h−1) ≥ 0 gives X(X−1)/2 + h(h+1)/2 ≥ hX: a_i + h(h+1)/2 · x_i ≥ h. A
    subset of the cuts is still a floor, so they are added where violated. It is at least the Lagrangian floor.
    """
    sets = packings(payments, budget)
    count, clients = sets.shape
    cost = np.concatenate([np.zeros(count), sensitivities / clients])
    frequencies = np.concatenate([np.ones(count), np.zeros(clients)])[None, :]
    cuts = {(client, h) for client in range(clients) for h in (1, 2, 4)}
    steepest = np.full(clients, 4.0)
    while True:
        rows = np.zeros((len(cuts), count + clients))
        bounds = np.zeros(len(cuts))
        for row, (client, h) in enumerate(sorted(cuts)):
            rows[row, :count] = -h * (h + 1) / 2 * sets[:, client]
            rows[row, count + client] = -1.0
            bounds[row] = -h
        solution = optimize.linprog(cost, A_ub=rows, b_ub=bounds, A_eq=frequencies, b_eq=[1.0])
        rates = np.maximum(sets.T @ solution.x[:count], 1e-9)
        # At rate x the tightest cut is that of h = ⌊1/x⌋; doubling at most keeps the programme well scaled.
        tightest = np.minimum(np.floor(1 / rates), 2 * steepest)
        steepest = np.maximum(steepest, tightest)
        short = tightest * (1 - (tightest + 1) / 2 * rates) - solution.x[count:]
        violated = {(int(i), int(tightest[i])) for i in np.flatnonzero(short > 1e-10 * (1 + tightest))} - cuts
        if not violated:
            return solution.fun
        cuts |= violated
