"""Rates of the clients' own, found when the roll call has told who they are: equal, by size, or given."""

import logging
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import RateRule
from aoi_fl.science.rates import equal_rates, given_rates, make_rates
from aoi_fl.strategies.roster import Roster

logger = logging.getLogger("flwr")

Rates: TypeAlias = RateRule | Sequence[float]  # "equal", "size", or r_i by client number


def rates_of(rule: Rates, roster: Roster, clients: int, per_round: int) -> NDArray[np.float64]:
    """Return (m,) the rates of the m clients known, at least ``clients`` of them, Σ r_i = k.

    Raises
    ------
    ConfigError
        Rates do not sum to k, one of them is missing or out of (0, 1], or sizes are asked for and nobody has declared
        any.
    """
    count = max(clients, len(roster))
    if rule == "equal":
        return equal_rates(count, per_round)
    if isinstance(rule, str):
        rates, capped = make_rates(rule, roster.sizes_of_all(f"rates {rule!r}"), per_round)
        if capped:
            logger.warning("%d clients have so much data that they take part in every round (rate 1).", capped)
        return rates
    names = [roster.called(i) for i in range(len(rule))]
    if len(rule) < len(roster):
        raise ConfigError(
            f"{len(rule)} rates are given, and client {roster.name(len(rule))} has none: give each client one, or "
            "choose rates 'size'."
        )
    return given_rates(list(rule), per_round, names)
