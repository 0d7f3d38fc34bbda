"""The server half of the round protocol: age-aware strategies for Flower.

Use each like any Flower strategy: construct it, then call ``strategy.start(grid, initial_arrays, num_rounds=…)``.
Names are imported on first use, so importing one name does not load the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aoi_fl.config.policies import STRATEGIES

if TYPE_CHECKING:
    from flwr.serverapp.strategy import Result

    from aoi_fl.strategies.aggregation.private import PrivateMean
    from aoi_fl.strategies.plan import RoundOptions
    from aoi_fl.strategies.policy import Plan, Policy, PolicyTraits, RoundOutcome, RoundView
    from aoi_fl.strategies.selection.budgeted import BudgetedRefresh
    from aoi_fl.strategies.selection.markov import MarkovParticipation
    from aoi_fl.strategies.selection.selector import SelectorPolicy
    from aoi_fl.strategies.selection.systematic import SystematicParticipation
    from aoi_fl.strategies.strategy import AgeAwareStrategy

    class _Central(AgeAwareStrategy):
        def __init__(self, per_round: int, *arguments: Any, **settings: Any) -> None: ...


_HOMES = {
    "AgeAwareStrategy": "strategy",
    "BudgetedRefresh": "selection.budgeted",
    "MarkovParticipation": "selection.markov",
    "Plan": "policy",
    "Policy": "policy",
    "PolicyTraits": "policy",
    "PrivateMean": "aggregation.private",
    "Result": "strategy",  # Flower's own, for the annotations of an adopted strategy
    "RoundOptions": "plan",
    "RoundOutcome": "policy",
    "RoundView": "policy",
    "SelectorPolicy": "selection.selector",
    "SystematicParticipation": "selection.systematic",
}

__all__ = [
    "AgeAwareStrategy",
    "BudgetedRefresh",
    "MarkovParticipation",
    "Plan",
    "Policy",
    "PolicyTraits",
    "PrivateMean",
    "Result",
    "RoundOptions",
    "RoundOutcome",
    "RoundView",
    "SelectorPolicy",
    "SystematicParticipation",
]
# Strategies made from rows: generated.
__all__ += [
    "AskedChoice",
    "F3astSelection",
    "FedCSSelection",
    "OldestAge",
    "OortSelection",
    "ProportionalSelection",
    "RandomSelection",
    "ReflSelection",
    "ReportedChoice",
]
if TYPE_CHECKING:

    class AskedChoice(_Central):
        """Policy ``pow-d``, Cho, Wang & Joshi 2022, π_pow-d."""

    class F3astSelection(_Central):
        """Policy ``f3ast``, Ribero et al. 2022, Algorithm 1."""

    class FedCSSelection(_Central):
        """Policy ``fedcs``, Nishio & Yonetani 2019, Algorithm 3."""

    class OldestAge(_Central):
        """Policy ``oldest-age``, Javani & Wang 2024, Remark 1."""

    class OortSelection(_Central):
        """Policy ``oort``, Lai et al. 2021, Algorithm 1."""

    class ProportionalSelection(_Central):
        """Policy ``proportional``, Javani & Wang 2025, Policy 2."""

    class RandomSelection(_Central):
        """Policy ``random``, Javani & Wang 2025, Policy 1."""

    class ReflSelection(_Central):
        """Policy ``refl``, Abdelmoniem et al. 2023, Section 4.1."""

    class ReportedChoice(_Central):
        """Policy ``rpow-d``, Cho, Wang & Joshi 2022, π_rpow-d."""

# Strategies: end.


def __getattr__(name: str) -> Any:
    home = "selection.selector" if name in STRATEGIES else _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
