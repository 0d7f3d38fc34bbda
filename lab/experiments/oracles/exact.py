"""The theorems, computed another way: a linear programme for Var[X], value iteration for one client's ages."""

from fractions import Fraction
from math import inf

import numpy as np
from scipy import optimize

_RARE = 12  # values of p_m tried before the best is refined
_SWEEPS = 6000


def printed_variance(clients, per_round, max_age):
    """Return the least Var[X] as Theorem 2 of Javani & Wang 2024 prints it, in rational arithmetic."""
    mean = Fraction(clients, per_round)
    if max_age <= mean // 1 - 1:
        return float((mean - max_age) * (mean - max_age - 1))
    rest = mean - mean // 1
    return float(rest * (1 - rest))


def programmed_variance(clients, per_round, max_age, dropout=0.0):
    """Return the least Var[X] among all tables p_0 … p_m with E[X] = n/k, without the theorem.

    For a given p_m the problem is linear in the survival function S_a = P(X > a): 1 = S_0 ≥ … ≥ S_m ≥ 0, E[X] =
    Σ_{a<m} S_a + S_m/p_m, and E[X²] = Σ_{a<m} (2a+1) S_a + S_m ((2m+1)/p_m + 2(1−p_m)/p_m²). The best p_m, at most
    what leaves E[X] = n/k within reach, is searched for on a grid and then between its neighbours. A client that is
    lost with probability d takes part with (1−d)p_a, so that S_{a+1} ≥ d S_a.
    """
    mean, m = clients / per_round, max_age
    now, later = np.eye(m, m + 1), np.eye(m, m + 1, k=1)
    steps = np.vstack([later - now, dropout * now - later]) if dropout else later - now

    def least(rare):
        cost = np.append(2 * np.arange(m) + 1.0, (2 * m + 1) / rare + 2 * (1 - rare) / rare**2)
        equal = np.vstack([np.append(np.ones(m), 1 / rare), np.eye(1, m + 1)])
        found = optimize.linprog(cost, steps, np.zeros(len(steps)), equal, [mean, 1.0], (0, 1))
        return found.fun - mean**2 if found.status == 0 else inf

    top = (1 - dropout) * (min(1.0, 1 / ((mean - m) * (1 - dropout))) if mean > m else 1.0)
    grid = np.geomspace(top / 20, top, _RARE)
    values = [*map(least, grid)]
    best = np.argmin(values)
    if best == _RARE - 1:
        return values[best]
    between = grid[max(best - 1, 0)], grid[best + 1]
    refined = optimize.minimize_scalar(least, bounds=between, method="bounded", options={"xatol": 1e-9})
    return min(values[best], refined.fun)


def selecting_ages(cost, charge, oldest):
    """Return at which ages 0 … oldest a refresh is optimal in the single client's problem P4, (instances, oldest+1).

    Relative value iteration, damped by one half since the optimal chain is periodic: an age costs ``cost`` a round, a
    refresh ``charge``, both (instances,); at the oldest age a refresh is forced.

    Source: Xu et al. 2024, eqs. (19)–(24) and (A.7).
    """
    ages = np.arange(oldest + 1)
    value = np.zeros((len(cost), oldest + 1))
    price = cost[:, None] * ages
    for _ in range(_SWEEPS):
        wait, select = _choices(price, charge, value)
        value = (np.minimum(wait, select) + value) / 2
        value -= value[:, :1]
    wait, select = _choices(price, charge, value)
    return select < wait


def _choices(price, charge, value):
    never = np.full((len(value), 1), np.inf)
    return price + np.hstack([value[:, 1:], never]), price + charge[:, None] + value[:, :1]
