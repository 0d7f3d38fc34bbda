"""The aggregation weights ω: equal, by data size, or unbiased for any rates.

With r_i client i's rate and q_i = d_i/Σ d its share of all examples, *unbiased* weights are ω_i = q_i/r_i: E[ω_i] = q_i
in every round. They act on updates, θ + Σ ω_i(θ_i−θ) = (1−Σ ω_i)θ + Σ ω_i θ_i, so the old model has the remaining
weight, possibly negative. Equal and size weights add up to 1.
"""

from typing import get_args

import numpy as np

from aoi_fl.science.errors import ConfigError, check_choice, unknown_rates
from aoi_fl.science.names import Weighting
from aoi_fl.science.types import Floats, Ints


def weigh(
    weighting: Weighting,
    clients: Ints,
    sizes: Ints | Floats,
    rates: Floats | None = None,
    draws: Ints | None = None,
) -> Floats:
    """Return (s,) the weights ω of a round's clients; empty for none.

    Parameters
    ----------
    weighting : ``equal`` (1/|S|), ``size`` (d_i/Σ_S d_j) or ``unbiased`` (q_i/r_i)
    clients : (s,) their numbers
    sizes : (n,) examples d_i of all clients
    rates : (n,) r_i, the mean participations (or draws) a round; for ``unbiased`` only
    draws : (s,) how often each was drawn with replacement, for ``unbiased``; by default once

    Raises ConfigError for an unknown weighting, sizes without a positive one, or, naming the client, an unknown rate.

    >>> who, sizes, rates = np.array([0, 2]), np.array([10, 20, 30]), np.array([0.5, 0.25, 1.0])
    >>> weigh("equal", who, sizes).tolist(), weigh("size", who, sizes).tolist()
    ([0.5, 0.5], [0.25, 0.75])
    >>> weigh("unbiased", who, sizes, rates).round(6).tolist()
    [0.333333, 0.5]
    """
    check_choice("weights", weighting, get_args(Weighting))
    parts: Floats = np.ones(len(clients))
    match weighting:
        case "equal":
            parts /= max(parts.sum(), 1.0)
        case "size":
            parts *= sizes[clients]
            if len(clients) and not parts.sum() > 0:
                raise ConfigError(
                    "examples", 0, "at least one among the participants, for weights by size", "Choose equal weights."
                )
            parts /= parts.sum()
        case "unbiased":
            if len(clients) and not sizes.sum() > 0:
                raise ConfigError(
                    "examples", 0, "at least one among all clients, for unbiased weights", "Choose equal weights."
                )
            parts *= (1 if draws is None else draws) * sizes[clients] / sizes.sum() / _known(rates, clients)
    return parts


def _known(rates: Floats | None, clients: Ints) -> Floats:
    if rates is None:
        raise unknown_rates("this policy")
    chosen = rates[clients]
    unknown = np.flatnonzero(~(chosen > 0))
    if unknown.size:
        allowed = "above 0 for unbiased weights"
        remedy = "Give it a rate, or choose equal or size."
        raise ConfigError(f"rate of client {clients[unknown[0]]}", chosen[unknown[0]], allowed, remedy)
    return chosen


def capped(weights: Floats, most: float) -> Floats:
    """Return (s,) shares in proportion to the weights, but none above ``most``; equal ones if s is below 1/most.

    >>> capped(np.array([8.0, 1.0, 1.0]), 0.5).tolist()
    [0.5, 0.25, 0.25]
    """
    shares = weights / weights.sum() if weights.sum() > 0 else np.full(len(weights), 1 / len(weights))
    if most * len(shares) <= 1:
        return np.full(len(shares), 1 / len(shares))
    at_cap = np.zeros(len(shares), np.bool_)
    while (above := ~at_cap & (shares > most * (1 + 1e-12))).any():
        at_cap |= above
        rest = shares[~at_cap].sum()
        left = 1 - most * at_cap.sum()
        shares[~at_cap] = shares[~at_cap] * left / rest if rest > 0 else left / (~at_cap).sum()
        shares[at_cap] = most
    return shares
