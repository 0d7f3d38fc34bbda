"""The keyword arguments of Flower's FedAvg: which keep their meaning here, and why the others have none.

Whoever replaces ``FedAvg(...)`` by a policy keeps the arguments that say how records are named, how metrics are
aggregated and who evaluates. Those that say who trains are what a policy replaces.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flwr.serverapp.strategy import Strategy

from aoi_fl.science.errors import ConfigError
from aoi_fl.strategies.plan import RoundOptions

# FedAvg's name -> the field of RoundOptions.
_TAKEN = {
    "fraction_evaluate": "fraction_evaluate",
    "min_evaluate_nodes": "min_evaluate_nodes",
    "min_available_nodes": "min_clients",
    "weighted_by_key": "weighted_by_key",
    "arrayrecord_key": "arrayrecord_key",
    "configrecord_key": "configrecord_key",
    "train_metrics_aggr_fn": "train_metrics_aggr_fn",
    "evaluate_metrics_aggr_fn": "evaluate_metrics_aggr_fn",
}
_REFUSED = {
    "fraction_train": "who trains is the policy's choice: say with per_round (or the budget) how many",
    "min_train_nodes": "who trains is the policy's choice: say with per_round (or the budget) how many",
}
# What a Flower strategy that aggregates says of messages and evaluation holds unless it is said again.
_INHERITED = sorted(_TAKEN.keys() - {"min_available_nodes"})
# Of these it goes by its own, whatever else is said.
_ITS_OWN = {"arrayrecord_key", "configrecord_key", "train_metrics_aggr_fn", "evaluate_metrics_aggr_fn"}


def with_arguments(policy: str, options: RoundOptions, given: Mapping[str, Any]) -> RoundOptions:
    """Return options with FedAvg's keyword arguments in their places.

    Raises
    ------
    ConfigError
        One of FedAvg's that a policy cannot follow; the message says why.
    TypeError
        No argument of a policy, nor of FedAvg.
    """
    for name in given:
        if name in _REFUSED:
            raise ConfigError(name, given[name], f"left out: {policy} decides it", f"{_REFUSED[name]}.")
        if name not in _TAKEN:
            raise TypeError(f"{policy} got an unexpected keyword argument {name!r}.")
    return replace(options, **{_TAKEN[name]: value for name, value in given.items()})


def inherited(options: RoundOptions, inner: Strategy) -> RoundOptions:
    """Return options that agree with the Flower strategy that aggregates, where they are still the defaults.

    Raises
    ------
    ConfigError
        They say something else than the strategy, of what it does by itself.
    """
    found = {}
    for strategy in chain_of(inner):
        for name in (name for name in _INHERITED if hasattr(strategy, name)):
            said, own = getattr(options, name), getattr(strategy, name)
            if said == getattr(RoundOptions(), name):
                found[name] = own
            elif name in _ITS_OWN and said != own:
                raise ConfigError(
                    name,
                    said,
                    f"that of the aggregation {type(strategy).__name__}, {own!r}",
                    f"Give it to {type(strategy).__name__}.",
                )
    return replace(options, **found)


def chain_of(strategy: Strategy) -> list[Strategy]:
    """Return a strategy and those that it wraps, in whatever attribute, outermost first."""
    chain = [strategy]
    for outer in chain:
        chain += [
            held
            for held in getattr(outer, "__dict__", {}).values()
            if isinstance(held, Strategy) and not any(held is one for one in chain)
        ]
    return chain
