"""The objective P2 of a budget, ages by their importance, and floors under P2 for every policy.

P2 is the average over clients and rounds of φ_i Δ_i after the round's refreshes (eqs. 11–14 of Xu et al. 2024; setting
in :mod:`aoi_fl.science.whittle`). Arrays have shape (n,); payments and budget share one unit.

References
----------
Xu, Xiao, Wu, Wu, Zhou & Sun 2024, Age-of-Information-Aware Federated Learning, J. Comput. Sci. Technol.
"""

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.science.errors import ConfigError, install

Floats = NDArray[np.float64]
_MOST_PACKED = 16  # clients for which all 2^n subsets are looked at


def p2(mean_ages: Floats, sensitivities: Floats) -> float:
    """Return P2 = Σ φ_i Δ̄_i / N, with Δ̄_i client i's age after each round's refreshes, averaged over rounds 1 … T.

    Source: Xu et al. 2024, eq. (11).
    """
    return float(np.mean(sensitivities * mean_ages))


def weighted_average_age(mean_ages: Floats, sizes: NDArray[np.int64]) -> float:
    """Return Σ (n_i/n) Δ̄_i / N, the average age in which each client counts by its examples.

    Fig. 10 shows it, and WICS does not minimise it: with payments proportional to the sizes, its index is MaxPack's.
    Source: Xu et al. 2024, Section 5.2.
    """
    return float(np.mean(sizes / sizes.sum() * mean_ages))


def lagrangian_floor(payments: Floats, sensitivities: Floats, budget: float, rounds: int | None = None) -> float:
    """Return a floor under P2 for any policy, of T rounds that start at ages ≥ 0, or of the long run (``rounds`` None).

    In the long run it is max(0, [(Σ√(φ_i p_i))²/B − Σφ_i]/(2N)). A client refreshed m times in T rounds has T+1−(m+1)
    rounds without refresh, split over m+1 spells. So Δ̄ ≥ ((T+1)/(m+1) − 1)(T+1)/(2T), and with Σ(m_i+1)p_i ≤ BT + Σp_i
    Cauchy–Schwarz gives

        P2 ≥ (T+1)/(2NT) · [(T+1)(Σ√(φ_i p_i))²/(BT + Σp_i) − Σφ_i].

    Only the budget's average over rounds is used; :func:`packing_bound` also counts each round's limits. A short run
    can undercut the floor of the long run.

    Source: Xu et al. 2024, Theorem 3, with its proof's bound corrected; the form for T rounds is derived here.
    """
    root = float(np.sqrt(sensitivities * payments).sum()) ** 2
    clients = payments.size
    if rounds is None:
        floor = (root / budget - sensitivities.sum()) / (2 * clients)
    else:
        spent = budget * rounds + payments.sum()
        floor = (rounds + 1) / (2 * clients * rounds) * ((rounds + 1) * root / spent - sensitivities.sum())
    return max(0.0, float(floor))


def packings(payments: Floats, budget: float) -> NDArray[np.bool_]:
    """Return every maximal set of clients that the budget pays for in one round, as rows of a boolean matrix.

    Raises ConfigError for more than 16 clients.
    """
    clients = payments.size
    if clients > _MOST_PACKED:
        raise ConfigError(
            "clients", clients, f"at most {_MOST_PACKED} for packings", "Use lagrangian_floor for more clients."
        )
    sets = (np.arange(2**clients)[:, None] >> np.arange(clients) & 1).astype(bool)
    # A hair above B: a set that fits by decimal arithmetic must not be lost to binary rounding, and a set too many
    # only lowers the bound.
    fits = sets @ payments <= budget * (1 + 1e-12)
    extendable = np.zeros(sets.shape[0], dtype=bool)
    for client in range(clients):
        without = np.flatnonzero(~sets[:, client])
        extendable[without] |= fits[without + (1 << client)]
    return sets[fits & ~extendable]


def packing_bound(payments: Floats, sensitivities: Floats, budget: float) -> float:
    """Return a floor under the long-run P2 that uses the sets of clients that fit into one round, for small N.

    The linear programme: over frequencies y_S ≥ 0 of the maximal packings S with Σ y_S = 1, and mean ages a_i,
    minimise Σ φ_i a_i / N subject to a_i ≥ h − h(h+1)/2 · x_i for h = 0, 1, 2, …, where x_i = Σ_{S∋i} y_S.

    It is a floor for any policy because (1) a round's set lies in some maximal packing, and (2) a spell of X rounds
    adds X(X−1)/2 to the sum of ages, and (X−h)(X−h−1) ≥ 0 gives X(X−1)/2 + h(h+1)/2 ≥ hX: a_i + h(h+1)/2 · x_i ≥ h. A
    subset of the cuts is still a floor, so they are added where violated. It is at least the Lagrangian floor.

    Raises ConfigError without SciPy, for more than 16 clients, or for a payment above the budget (P2 would be
    infinite).
    """
    try:
        optimize: Any = import_module("scipy.optimize")
    except ImportError as error:
        raise ConfigError(
            "scipy", None, "installed for packing_bound", f"Install it: {install('report')}, or use lagrangian_floor."
        ) from error
    sets = packings(payments, budget)
    if not sets.any(axis=0).all():
        client = int(np.flatnonzero(~sets.any(axis=0))[0])
        allowed = f"at most budget, {budget:g}, for P2 to have a finite floor"
        remedy = "Leave the client out, or raise the budget."
        raise ConfigError(f"payment of client {client}", payments[client], allowed, remedy)
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
        if solution.status != 0:
            raise ConfigError(
                "packing_bound", None, f"a solvable linear program ({solution.message})", "Use lagrangian_floor."
            )
        rates = np.maximum(sets.T @ solution.x[:count], 1e-9)
        # At rate x the tightest cut is that of h = ⌊1/x⌋; doubling at most keeps the programme well scaled.
        tightest = np.minimum(np.floor(1 / rates), 2 * steepest)
        steepest = np.maximum(steepest, tightest)
        short = tightest * (1 - (tightest + 1) / 2 * rates) - solution.x[count:]
        violated = {(int(i), int(tightest[i])) for i in np.flatnonzero(short > 1e-10 * (1 + tightest))} - cuts
        if not violated:
            return float(solution.fun)
        cuts |= violated
