"""The objective P2 of a budget, ages by their importance, and a floor under P2 for every policy.

P2 is the average over clients and rounds of φ_i Δ_i after the round's refreshes (eqs. 11–14 of Xu et al. 2024; setting
in :mod:`aoi_fl.science.whittle`). Arrays have shape (n,); payments and budget share one unit.

References
----------
Xu, Xiao, Wu, Wu, Zhou & Sun 2024, Age-of-Information-Aware Federated Learning, J. Comput. Sci. Technol.
"""

import numpy as np

from aoi_fl.science.types import Floats, Ints


def p2(mean_ages: Floats, sensitivities: Floats) -> float:
    """Return P2 = Σ φ_i Δ̄_i / N, with Δ̄_i client i's age after each round's refreshes, averaged over rounds 1 … T.

    Source: Xu et al. 2024, eq. (11).
    """
    return float(np.mean(sensitivities * mean_ages))


def weighted_average_age(mean_ages: Floats, sizes: Ints) -> float:
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

    Only the budget's average over rounds is used; the laboratory's packing bound also counts each round's limits. A
    short run can undercut the floor of the long run.

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
