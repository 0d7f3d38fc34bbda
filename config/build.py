"""Build a policy's object without Flower: a selector, or the clients' participation rule.

The simulator, ``aoi policy``, the figures and the theory page build policies here, by :meth:`PolicyRow.build`.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aoi_fl.config.values import budgets, phases_of
from aoi_fl.science.budget import BoundedSelector, BudgetedSelector
from aoi_fl.science.f3ast import F3ast
from aoi_fl.science.fedcs import FedCS
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.names import Index
from aoi_fl.science.oort import OortSelector
from aoi_fl.science.participation import MarkovRule, SystematicRule
from aoi_fl.science.power_of_choice import PowerOfChoice, candidate_count
from aoi_fl.science.rates import equal_rates
from aoi_fl.science.refl import Refl
from aoi_fl.science.selection import OldestAgeSelector, ProportionalSelector, RandomSelector
from aoi_fl.science.systematic import SystematicPolicy

Keys: TypeAlias = Mapping[str, Any]
Rates: TypeAlias = NDArray[np.float64]


def markov_optimal(keys: Keys, rates: Rates | None, dropout: float) -> MarkovPolicy | MarkovRule:
    """Return the optimal table, or a table for each client's own rate."""
    n, k = keys["num-clients"], keys["clients-per-round"]
    if keys["compensate"] == "availability":
        return MarkovRule.learning(equal_rates(n, k) if rates is None else rates)
    if rates is not None:
        return MarkovPolicy.rated(rates, dropout=dropout)
    return MarkovPolicy.optimal(n, k, keys["max-age"], dropout)


def systematic(keys: Keys, rates: Rates | None) -> SystematicPolicy | SystematicRule:
    """Return systematic participation."""
    rates = equal_rates(keys["num-clients"], keys["clients-per-round"]) if rates is None else rates
    if keys["compensate"] == "availability":
        return SystematicRule.learning(rates, keys["seed"])
    return SystematicPolicy.rated(rates, *phases_of(keys["phases"]), keys["seed"])


def budgeted(keys: Keys, index: Index) -> BoundedSelector:
    """Return a selector that spends each round's budget in the order of an index."""
    (budget, total), rule = budgets(keys["budget"]), keys["budget-rule"]
    selector = BudgetedSelector(budget, index, keys["seed"], rule == "strict", rule == "stop", keys["ageing"])
    return BoundedSelector(selector, total)


def _central(selector: Callable[[int, int], Any]) -> Callable[[Keys], Any]:
    return lambda keys: selector(keys["clients-per-round"], keys["seed"])


def _candidates(keys: Keys) -> int:
    return candidate_count(keys["candidates"], keys["clients-per-round"])


CENTRAL: Mapping[str, Callable[[Keys], Any]] = {
    "random": _central(RandomSelector),
    "proportional": _central(ProportionalSelector),
    "oldest-age": _central(OldestAgeSelector),
    "oort": _central(OortSelector),
    "refl": _central(Refl),
    "f3ast": _central(F3ast),
    "pow-d": lambda keys: PowerOfChoice(keys["clients-per-round"], keys["seed"], _candidates(keys)),
    "rpow-d": lambda keys: PowerOfChoice(keys["clients-per-round"], keys["seed"], _candidates(keys)),
    "fedcs": lambda keys: FedCS(keys["clients-per-round"], keys["seed"], _candidates(keys), keys["train-timeout"]),
    "markov-increasing": lambda keys: MarkovPolicy.increasing(
        keys["num-clients"], keys["clients-per-round"], keys["max-age"], keys["exponent"]
    ),
}
"""The builders of policies that need run keys only."""
