"""Costs of age other than the age itself, and the index for them.

The objective is the average over clients and rounds of φ_i f(Δ_i), ages after the round's refreshes; f(j) = j is P2.

References
----------
Xu, Xiao, Wu, Wu, Zhou & Sun 2024, Age-of-Information-Aware Federated Learning, J. Comput. Sci. Technol.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from aoi_fl.science.errors import check_choice
from aoi_fl.science.names import Ageing
from aoi_fl.science.types import Floats, Ints

AgeingCost: TypeAlias = Callable[[Floats], Floats]

_OLDEST = 10**5  # an older client counts as this old under ``root``

AGEING: Mapping[Ageing, AgeingCost] = {
    "linear": lambda ages: ages,
    "quadratic": lambda ages: ages**2,
    "root": lambda ages: np.sqrt(ages),
}


def ageing_cost(name: Ageing) -> AgeingCost:
    """Return a cost by its name: ``linear`` f(j) = j, ``quadratic`` j², ``root`` √j.

    Raises ConfigError for another name.
    """
    check_choice("ageing", name, AGEING)
    return AGEING[name]


def ageing_index(ages: Ints, payments: Floats, sensitivities: Floats, budget: float, name: Ageing) -> Floats:
    """Return Whittle's index of every client for an ageing cost f, given its age a before the decision.

    W(a) = (Bφ/p)·[(a+1)·f(a+1) − Σ_{j=1..a} f(j)] is the charge at which cycles of a+1 and of a+2 rounds cost the same
    in a round. f(j) = j gives eq. (26), f(j) = j² (a+1)(a+2)(4a+3)/6. A threshold on it is optimal where f does not
    fall.

    Parameters
    ----------
    ages, payments, sensitivities : (n,) a_i, p_i and φ_i
    budget : B
    name : of f, ``quadratic`` or ``root``

    Source: derived here; Xu et al. 2024, eqs. (19)–(26), is the linear case.

    >>> ageing_index(np.array([0, 2]), np.array([5.0, 10.0]), np.array([0.5, 1.0]), 40.0, "quadratic").tolist()
    [4.0, 88.0]
    """
    if name == "root":  # clients declare the ages that they start from, so memory must not grow with them
        near = np.minimum(ages, _OLDEST)
        roots = np.sqrt(np.arange(near.max(initial=0) + 2, dtype=np.float64))
        worth: Floats = (near + 1) * roots[near + 1] - np.cumsum(roots)[near]
    else:
        worth = (ages + 1.0) * (ages + 2.0) * (4.0 * ages + 3.0) / 6
    return budget * sensitivities / payments * worth
