"""Costs of age other than the age itself, and the index for them.

The objective is the average over clients and rounds of φ_i f(Δ_i), ages after the round's refreshes; f(j) = j is P2.

References
----------
Xu, Xiao, Wu, Wu, Zhou & Sun 2024, Age-of-Information-Aware Federated Learning, J. Comput. Sci. Technol.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from aoi_fl.science.errors import ConfigError, check_choice
from aoi_fl.science.names import Ageing
from aoi_fl.science.types import Floats, Ints

AgeingCost: TypeAlias = Callable[[Floats], Floats]

_SUMMED = 10**5  # ages up to which roots are summed one by one
_ZETA = -0.20788622497735457  # ζ(−1/2)

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


def ageing_index(ages: Ints, payments: Floats, sensitivities: Floats, budget: float, cost: AgeingCost) -> Floats:
    """Return Whittle's index of every client for an ageing cost f, given its age a before the decision.

    W(a) = (Bφ/p)·[(a+1)·f(a+1) − Σ_{j=1..a} f(j)] is the charge at which cycles of a+1 and of a+2 rounds cost the same
    in a round. f(j) = j gives eq. (26), f(j) = j² (a+1)(a+2)(4a+3)/6. A threshold on it is optimal where f does not
    fall.

    Parameters
    ----------
    ages, payments, sensitivities : (n,) a_i, p_i and φ_i
    budget : B
    cost : f, of an array of ages 0, 1, 2, …; f(0) is subtracted; those of :data:`AGEING` have closed forms

    Raises ConfigError if f falls somewhere or is not finite.
    Source: derived here; Xu et al. 2024, eqs. (19)–(26), is the linear case.

    >>> ageing_index(np.array([0, 2]), np.array([5.0, 10.0]), np.array([0.5, 1.0]), 40.0, AGEING["quadratic"]).tolist()
    [4.0, 88.0]
    """
    if not ages.size:
        return np.empty(0)
    closed = _CLOSED.get(cost)
    worth = _summed(ages, cost) if closed is None else closed(ages)
    return budget * sensitivities / payments * worth


def _summed(ages: Ints, cost: AgeingCost) -> Floats:
    """Return (n,) (a+1)·f(a+1) − Σ_{j=1..a} f(j), the costs summed one by one."""
    costs = np.asarray(cost(np.arange(int(ages.max()) + 2, dtype=np.float64)), dtype=np.float64)
    costs = costs - costs[0]
    falls = np.flatnonzero(~(np.diff(costs) >= 0))
    if falls.size:
        age = int(falls[0])
        allowed = f"at least the cost at age {age}, {costs[age]:g}"
        raise ConfigError("ageing", f"{costs[age + 1]:g} at age {age + 1}", allowed, "Give costs that do not fall.")
    worth: Floats = (ages + 1) * costs[ages + 1] - np.cumsum(costs)[ages]
    return worth


def _of_roots(ages: Ints) -> Floats:
    """Return :func:`_summed` of √j; from age 10^5 on by Euler and Maclaurin, as exactly as doubles allow.

    Σ_{j<N} √j = ⅔N^(3/2) − ½√N + ζ(−½) + 1/(24√N) − …
    """
    rounds = ages + 1.0
    far = np.sqrt(rounds) * (rounds / 3 + 0.5 - 1 / (24 * rounds)) - _ZETA
    return np.where(ages < _SUMMED, _summed(np.minimum(ages, _SUMMED), AGEING["root"]), far)


# Clients declare the ages they start from: an index must not take memory in proportion to them.
_CLOSED: Mapping[AgeingCost, Callable[[Ints], Floats]] = {
    AGEING["linear"]: lambda ages: (ages + 1.0) * (ages + 2.0) / 2,
    AGEING["quadratic"]: lambda ages: (ages + 1.0) * (ages + 2.0) * (4.0 * ages + 3.0) / 6,
    AGEING["root"]: _of_roots,
}
