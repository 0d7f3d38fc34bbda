"""The server half of the round protocol: age-aware strategies for Flower.

Each is used like any Flower strategy: construct it, then ``strategy.start(grid, initial_arrays, num_rounds=…)``.
They are imported when they are asked for: who only reads :mod:`aoi_fl.strategies.registry` does not wait for Flower.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aoi_fl.strategies.plan import RoundOptions
    from aoi_fl.strategies.policy import Plan, Policy, PolicyTraits, RoundOutcome, RoundView
    from aoi_fl.strategies.selection.budgeted import BudgetedRefresh
    from aoi_fl.strategies.selection.markov import MarkovParticipation
    from aoi_fl.strategies.selection.selector import (
        AskedChoice,
        F3astSelection,
        FedCSSelection,
        OldestAge,
        OortSelection,
        ProportionalSelection,
        RandomSelection,
        ReflSelection,
        ReportedChoice,
        SelectorPolicy,
    )
    from aoi_fl.strategies.selection.systematic import SystematicParticipation
    from aoi_fl.strategies.strategy import AgeAwareStrategy

_HOMES = {
    "AgeAwareStrategy": "strategy",
    "AskedChoice": "selection.selector",
    "BudgetedRefresh": "selection.budgeted",
    "F3astSelection": "selection.selector",
    "FedCSSelection": "selection.selector",
    "MarkovParticipation": "selection.markov",
    "OldestAge": "selection.selector",
    "OortSelection": "selection.selector",
    "Plan": "policy",
    "Policy": "policy",
    "PolicyTraits": "policy",
    "ProportionalSelection": "selection.selector",
    "RandomSelection": "selection.selector",
    "ReflSelection": "selection.selector",
    "ReportedChoice": "selection.selector",
    "RoundOptions": "plan",
    "RoundOutcome": "policy",
    "RoundView": "policy",
    "SelectorPolicy": "selection.selector",
    "SystematicParticipation": "selection.systematic",
}

__all__ = [
    "AgeAwareStrategy",
    "AskedChoice",
    "BudgetedRefresh",
    "F3astSelection",
    "FedCSSelection",
    "MarkovParticipation",
    "OldestAge",
    "OortSelection",
    "Plan",
    "Policy",
    "PolicyTraits",
    "ProportionalSelection",
    "RandomSelection",
    "ReflSelection",
    "ReportedChoice",
    "RoundOptions",
    "RoundOutcome",
    "RoundView",
    "SelectorPolicy",
    "SystematicParticipation",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
