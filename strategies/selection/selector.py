"""Central policies: a selector of :mod:`aoi_fl.science` chooses among the clients that the server can reach."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from aoi_fl import protocol
from aoi_fl.config.policies import REGISTRY, STRATEGIES
from aoi_fl.protocol.records import State
from aoi_fl.science.client_stats import Report
from aoi_fl.science.selection import Population, Selector
from aoi_fl.science.types import AnyArray, Floats, Ints
from aoi_fl.strategies.guarded import Guarded, guarded
from aoi_fl.strategies.plan import RoundOptions
from aoi_fl.strategies.policy import ClientOutcome, Plan, Policy, PolicyTraits, RoundOutcome, RoundView
from aoi_fl.strategies.strategy import AgeAwareStrategy
from aoi_fl.strategies.weighting import AUTO, UNBIASED


class SelectorPolicy(Policy):
    """A selector as a policy.

    A selector needs ``select``. It may have ``rates(population)``, ``learn(round, population, report)``, ``describe``,
    ``state_dict`` and ``load_state_dict``. Its report has each client's loss and the seconds until its update arrived,
    and how long the server waited for late clients. A selector with learned rates has ``after(clients)``: the rates
    once the updates of these clients count.

    Parameters
    ----------
    selector : chooses the clients
    per_round : k
    traits : facts of the policy; None: those of the selector's rates
    describe : parameters for the ledger, besides k; ``kind`` names the policy
    evaluates : whether candidates evaluate the round's model before the selector chooses, which asks by its ``ask``
    """

    def __init__(
        self,
        selector: Selector,
        per_round: int,
        traits: PolicyTraits | None = None,
        *,
        describe: Mapping[str, Any] | None = None,
        evaluates: bool = False,
    ) -> None:
        own = guarded(selector)
        selector = own.made if isinstance(own, Guarded) else selector
        known = hasattr(own, "rates") and callable(own.rates)
        traits = traits or PolicyTraits(per_round, rates="known" if known else "unknown")
        self.traits = replace(traits, law=selector, by_data=evaluates or hasattr(own, "learn"))
        self.selector, self._checked = selector, own
        self._per_round, self._evaluates = per_round, evaluates
        self._described = describe or {}
        self._population: Population | None = None  # that the selector chose from

    def plan(self, view: RoundView) -> Plan:
        """Let the selector choose from the population."""
        selector: Any = self._checked
        if self._evaluates:
            selector.ask = lambda round_, clients: _losses(view, clients)
        population = self._population = view.population
        with _choosing(self.selector, getattr(selector, "per_round", None), view.places):
            selection = selector.select(view.round, population)
        if self._evaluates:
            selector.ask = None
        rates = members = None
        if self.traits.rates == "learned":
            rates = selector.after(selection.clients)
        elif self.traits.rates == "known":
            rates, members = selector.rates(population), population.available
        return Plan(selection.clients, selection.weights, rates=rates, members=members)

    def observe(self, outcome: RoundOutcome) -> None:
        """Let the selector learn from the updates."""
        if self._population is not None and hasattr(self._checked, "learn"):
            self._checked.learn(outcome.view.round, self._population, report(outcome.clients))
        self._population = None

    def describe(self) -> dict[str, Any]:
        """Return the policy's kind, k and the selector's parameters."""
        own = self._checked.describe() if hasattr(self._checked, "describe") else {}
        return {"kind": type(self.selector).__name__, "per_round": self._per_round, **own, **self._described}

    def state_dict(self) -> State:
        """Return the selector's state."""
        return self._checked.state_dict() if hasattr(self._checked, "state_dict") else {}

    def load_state_dict(self, state: State) -> None:
        """Restore the selector's state."""
        if hasattr(self._checked, "load_state_dict"):
            self._checked.load_state_dict(state)


@contextmanager
def _choosing(selector: Any, count: Any, places: int | None) -> Iterator[None]:
    """Let a selector choose as many clients as places are free, if it counts them as ``per_round``."""
    if places is None or not isinstance(count, int) or places >= count:
        yield
        return
    object.__setattr__(selector, "per_round", places)
    try:
        yield
    finally:
        object.__setattr__(selector, "per_round", count)


def _losses(view: RoundView, candidates: Ints) -> Floats:
    """Return (d,) the model's mean loss on each candidate's data; NaN where it has reported none."""
    losses = dict(view.query(protocol.EVALUATE, dict.fromkeys(candidates.tolist(), view.base)))
    return np.array([losses.get(client, np.nan) for client in candidates.tolist()])


def report(outcomes: Sequence[ClientOutcome]) -> Report:
    """Return the losses and seconds of a round's updates, and the clients without a usable update."""
    ordered: list[ClientOutcome] = sorted(outcomes, key=lambda one: one.client)
    came = [one for one in ordered if one.result == "trained"]
    late = [
        one
        for one in ordered
        if one.result in ("failed", "refused") or (one.result in ("late", "surplus") and one.seconds is not None)
    ]

    def column(name: str, of: list[ClientOutcome], kind: type = np.float64) -> AnyArray:
        return np.array([getattr(one, name) for one in of], kind)  # None becomes NaN

    clients, seconds = column("client", came, np.int64), column("seconds", came)
    waited = np.nan_to_num(column("seconds", late))
    return Report(clients, column("loss", came), seconds, column("client", late, np.int64), waited)


@cache
def strategy_of(policy: str) -> type[AgeAwareStrategy]:
    """Return the strategy of a central policy, made from its row.

    Its arguments are k, those of the selector after k and the seed, and the settings of the base class. Its name is the
    row's, and the ledger names the policy by it.
    """
    row = REGISTRY[policy]
    name, selector = row.maker.partition(":")[2], row.load()
    own = {key: value for key, value in signature(selector).parameters.items() if key not in ("per_round", "seed")}

    def __init__(self: AgeAwareStrategy, per_round: int, *arguments: Any, **settings: Any) -> None:
        options = settings.get("options") or RoundOptions()
        given = {key: settings.pop(key) for key in own if key in settings}
        if "wanted" in own:
            given.setdefault("wanted", options.enough or 0)
        if row.weight == UNBIASED and settings.get("weights", AUTO) == AUTO:
            settings["weights"] = UNBIASED
        traits, described = PolicyTraits(per_round, rates=row.rates, **row.traits), {"kind": type(self).__name__}
        made = selector(per_round, options.seed, *arguments, **given)
        policy = SelectorPolicy(made, per_round, traits, describe=described, evaluates=row.evaluates)
        base: Any = super(strategy, self)
        base.__init__(policy, **settings)

    documented = f"{row.who[0].upper()}{row.who[1:]} ({row.source})."
    members = {"__init__": __init__, "__doc__": documented, "__module__": __name__}
    strategy: type[AgeAwareStrategy] = type(name, (AgeAwareStrategy,), members)
    return strategy


if not TYPE_CHECKING:

    def __getattr__(name: str) -> type[AgeAwareStrategy]:
        """Return the strategy of a row by its name."""
        if (policy := STRATEGIES.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return strategy_of(policy)


def seed_of(settings: Mapping[str, Any]) -> int:
    """Return the seed of the round options in a strategy's settings; 0 by default."""
    return int((settings.get("options") or RoundOptions()).seed)
