"""The keyword arguments of Flower's FedAvg: those with the same meaning here, and those without.

A policy in place of ``FedAvg(...)`` takes the arguments on names of records, aggregation of metrics and evaluation. It
replaces the arguments on training clients.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp.strategy import Strategy

from aoi_fl.protocol.own_code import call_own
from aoi_fl.science.errors import ConfigError
from aoi_fl.strategies.plan import RoundOptions

# A policy inherits these from the Flower strategy that aggregates.
_INHERITED = (
    "arrayrecord_key",
    "configrecord_key",
    "evaluate_metrics_aggr_fn",
    "fraction_evaluate",
    "min_evaluate_nodes",
    "train_metrics_aggr_fn",
    "weighted_by_key",
)
# FedAvg's name -> the field of RoundOptions.
_TAKEN = {name: name for name in _INHERITED} | {"min_available_nodes": "min_clients"}
_REFUSED = ("fraction_train", "min_train_nodes")
# Of these the aggregation always uses its own.
_ITS_OWN = {"arrayrecord_key", "configrecord_key", "train_metrics_aggr_fn", "evaluate_metrics_aggr_fn"}


def with_arguments(policy: str, options: RoundOptions, given: Mapping[str, Any]) -> RoundOptions:
    """Return options with FedAvg's keyword arguments in their places.

    Raises
    ------
    ConfigError
        A policy cannot follow this argument of FedAvg; the message has the reason.
    TypeError
        Neither a policy nor FedAvg has this argument.
    """
    for name in given:
        if name in _REFUSED:
            remedy = "the policy selects the clients: set their number with per_round (or the budget)."
            raise ConfigError(name, given[name], f"left out: {policy} decides it", remedy)
        if name not in _TAKEN:
            raise TypeError(f"{policy} got an unexpected keyword argument {name!r}.")
    return replace(options, **{_TAKEN[name]: value for name, value in given.items()})


def judging(
    evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None],
) -> Callable[[int, ArrayRecord], MetricRecord | None]:
    """Return the server's evaluation; it raises ConfigError for what is no MetricRecord."""
    wanted = "a function of (server_round, arrays) that returns a MetricRecord or None"
    return partial(call_own, "evaluate_fn", evaluate_fn, made=_record, wanted=wanted)


def _record(made: Any) -> MetricRecord | None:
    if made is not None and not isinstance(made, MetricRecord):
        raise TypeError
    return made


def inherited(options: RoundOptions, inner: Strategy) -> RoundOptions:
    """Return options in which defaults are replaced by those of the Flower strategy that aggregates.

    Raises
    ------
    ConfigError
        An option contradicts the strategy.
    """
    found = {}
    for strategy in chain_of(inner):
        for name in (name for name in _INHERITED if hasattr(strategy, name)):
            value, own = getattr(options, name), getattr(strategy, name)
            if value == getattr(RoundOptions, name):
                found[name] = own
            elif name in _ITS_OWN and value != own:
                allowed = f"the same as in the aggregation {type(strategy).__name__}, {own!r}"
                raise ConfigError(name, value, allowed, f"Give it to {type(strategy).__name__}.")
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
