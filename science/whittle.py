"""Whittle's index and its rivals, for the choice of clients that refresh their data.

The setting of Xu et al. 2024: client i's data have an age Δ_i, the rounds since the last refresh; a refresh costs p_i
out of a budget of B a round; the objective P2 (:mod:`aoi_fl.science.objective`) counts φ_i Δ_i *after* the round's
refreshes. An index uses the age *before* the decision. Arrays have shape (n,); payments and budget share one unit, and
φ_i is objective per round of age.

References
----------
Xu, Xiao, Wu, Wu, Zhou & Sun 2024, Age-of-Information-Aware Federated Learning, J. Comput. Sci. Technol.
Whittle 1988, Restless bandits: activity allocation in a changing world, J. Appl. Probab. 25(A).
"""

import numpy as np

from aoi_fl.science.types import Floats, Ints


def whittle_index(ages: Ints, payments: Floats, sensitivities: Floats, budget: float) -> Floats:
    """Return Whittle's index (Δ+1)(Δ+2)Bφ/(2p) of every client, given its age before the decision.

    It is the service charge λ at which refreshing and waiting cost the same in the client's own problem P4.
    Source: Xu et al. 2024, eq. (26).

    >>> whittle_index(np.array([0, 2]), np.array([5.0, 10.0]), np.array([0.5, 1.0]), 40.0).tolist()
    [4.0, 24.0]
    """
    return (ages + 1.0) * (ages + 2.0) * budget * sensitivities / (2.0 * payments)


def abs_index(ages: Ints, payments: Floats, sensitivities: Floats) -> Floats:
    """Return the index Δφ/p of age-based scheduling (ABS), as Xu et al. 2024, Section 5.1, adapt it to payments."""
    return ages * sensitivities / payments


def maxpack_index(ages: Ints) -> Floats:
    """Return MaxPack's index, the age alone (Xu et al. 2024, Section 5.1)."""
    return ages.astype(np.float64)
