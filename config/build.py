"""Builders of the policies that use more run keys than a selector does, for :meth:`PolicyRow.build`."""

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aoi_fl.science.budget import BoundedSelector, BudgetedSelector
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.participation import MarkovRule, SystematicRule
from aoi_fl.science.rates import equal_rates
from aoi_fl.science.systematic import SystematicPolicy

Keys: TypeAlias = Mapping[str, Any]
Rates: TypeAlias = NDArray[np.float64]


def markov_optimal(keys: Keys, rates: Rates | None) -> MarkovPolicy | MarkovRule:
    """Return the optimal table, or a table for each client's own rate."""
    n, k = keys["num-clients"], keys["clients-per-round"]
    if keys["compensate"] == "availability":
        return MarkovRule.learning(equal_rates(n, k) if rates is None else rates)
    if rates is not None:
        return MarkovPolicy.rated(rates)
    return MarkovPolicy.optimal(n, k, keys["max-age"])


def systematic(keys: Keys, rates: Rates | None) -> SystematicPolicy | SystematicRule:
    """Return systematic participation."""
    rates = equal_rates(keys["num-clients"], keys["clients-per-round"]) if rates is None else rates
    if keys["compensate"] == "availability":
        return SystematicRule.learning(rates, keys["seed"])
    return SystematicPolicy.rated(rates, keys["phases"], keys["jitter"], keys["seed"])


def markov_increasing(keys: Keys, rates: Rates | None) -> MarkovPolicy:
    """Return the table with probabilities that grow strictly with age."""
    return MarkovPolicy.increasing(keys["num-clients"], keys["clients-per-round"], keys["max-age"], keys["exponent"])


def budgeted(keys: Keys, rates: Rates | None) -> BoundedSelector:
    """Return a selector that spends a budget by the order of an index."""
    budget, rule, index = keys["budget"], keys["budget-rule"], keys["index"]
    selector = BudgetedSelector(budget, index, keys["seed"], rule == "strict", rule == "stop", keys["ageing"])
    return BoundedSelector(selector, keys["total-budget"] or math.inf)
