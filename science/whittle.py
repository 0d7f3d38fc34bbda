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
from numpy.typing import NDArray

from aoi_fl.science.errors import ConfigError

Floats = NDArray[np.float64]


def whittle_index(ages: NDArray[np.int64], payments: Floats, sensitivities: Floats, budget: float) -> Floats:
    """Return Whittle's index (Δ+1)(Δ+2)Bφ/(2p) of every client, given its age before the decision.

    It is the service charge λ at which refreshing and waiting cost the same in the client's own problem P4.
    Source: Xu et al. 2024, eq. (26).

    >>> whittle_index(np.array([0, 2]), np.array([5.0, 10.0]), np.array([0.5, 1.0]), 40.0).tolist()
    [4.0, 24.0]
    """
    return (ages + 1.0) * (ages + 2.0) * budget * sensitivities / (2.0 * payments)


def threshold(charge: float, payments: Floats, sensitivities: Floats, budget: float) -> NDArray[np.int64]:
    """Return the age H_i from which on a refresh is worth the service charge λ: select iff Δ_i ≥ H_i.

    H = ⌊−½ + √(¼ + 2λp/(Bφ))⌋, the largest integer with H(H+1) ≤ 2λp/(Bφ). Where λ equals the index of an age, H is the
    next age. Source: Xu et al. 2024, eq. (25); print lost the floor. Raises ConfigError for a bad charge.

    >>> threshold(24.0, np.array([10.0]), np.array([1.0]), 40.0).tolist()
    [3]
    """
    if not (charge >= 0 and np.isfinite(charge)):
        raise ConfigError("charge", charge, "a finite number ≥ 0", "Choose another charge.")
    ages = np.floor(-0.5 + np.sqrt(0.25 + 2.0 * charge * payments / (budget * sensitivities))).astype(np.int64)
    # The root may be rounded across an integer; the index itself decides, so that (25) and (26) always agree.
    ages -= (ages > 0) & (whittle_index(ages - 1, payments, sensitivities, budget) > charge)
    ages += whittle_index(ages, payments, sensitivities, budget) <= charge
    return ages


def abs_index(ages: NDArray[np.int64], payments: Floats, sensitivities: Floats) -> Floats:
    """Return the index Δφ/p of age-based scheduling (ABS), as Xu et al. 2024, Section 5.1, adapt it to payments."""
    return ages * sensitivities / payments


def maxpack_index(ages: NDArray[np.int64]) -> Floats:
    """Return MaxPack's index, the age alone (Xu et al. 2024, Section 5.1)."""
    return ages.astype(np.float64)
