"""Central policies: a selector of :mod:`aoi_fl.science` chooses among the clients that the server can reach."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl import protocol
from aoi_fl.config.policies import ROWS
from aoi_fl.science.client_stats import Report
from aoi_fl.science.f3ast import F3ast
from aoi_fl.science.oort import OortSettings
from aoi_fl.science.power_of_choice import PowerOfChoice
from aoi_fl.science.selection import Population, Selector
from aoi_fl.strategies.plan import RoundOptions
from aoi_fl.strategies.policy import ClientOutcome, Plan, Policy, PolicyTraits, RoundOutcome, RoundView, State, named
from aoi_fl.strategies.strategy import AgeAwareStrategy
from aoi_fl.strategies.weighting import AUTO, UNBIASED

_IN_VAIN = ("failed", "refused")  # results of a client that has responded, with nothing of use


class SelectorPolicy(Policy):
    """A selector as a policy.

    A selector needs ``select``. It may have ``rates(population)``, ``learn(round, population, report)``, ``state_dict``
    and ``load_state_dict``. Its report holds the loss that each client reports with its update, the seconds until the
    update arrived, and how long the server waited for late clients.

    Parameters
    ----------
    selector : chooses the clients
    per_round : k
    traits : facts of the policy; None: those of the selector's rates
    describe : parameters for the ledger, besides k; ``kind`` names the policy
    evaluates : whether candidates evaluate the round's model before the selector chooses
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
        known = hasattr(selector, "rates") and callable(selector.rates)
        traits = traits or PolicyTraits(per_round, rates="known" if known else "unknown")
        self.traits = replace(traits, law=selector, by_data=evaluates or hasattr(selector, "learn"))
        self.selector = selector
        self._per_round, self._evaluates = per_round, evaluates
        self._described = {"kind": type(selector).__name__, **(describe or {})}
        self._population: Population | None = None  # that the selector chose from

    def plan(self, view: RoundView) -> Plan:
        """Let the selector choose from the population."""
        if isinstance(self.selector, PowerOfChoice) and self._evaluates:
            self.selector.ask = lambda round_, clients: _losses(view, clients)
        population = self._population = view.population
        with named(self.selector, "select"):
            selection = self.selector.select(view.round, population)
        if isinstance(self.selector, PowerOfChoice):
            self.selector.ask = None
        rates = members = None
        if isinstance(self.selector, F3ast):
            rates = self.selector.after(selection.clients)
        elif self.traits.rates == "known":
            rates, members = self.selector.rates(population), population.available  # type: ignore[attr-defined]
        return Plan(selection.clients, selection.weights, rates=rates, members=members)

    def observe(self, outcome: RoundOutcome) -> None:
        """Let the selector learn from the updates."""
        if self._population is not None and hasattr(self.selector, "learn"):
            with named(self.selector, "learn"):
                self.selector.learn(outcome.view.round, self._population, report(outcome.clients))
        self._population = None

    def describe(self) -> dict[str, Any]:
        """Return the policy's kind, k and more."""
        more = {name: value for name, value in self._described.items() if name != "kind"}
        return {"kind": self._described["kind"], "per_round": self._per_round, **more}

    def state_dict(self) -> State:
        """Return the selector's state."""
        kept: State = self.selector.state_dict() if hasattr(self.selector, "state_dict") else {}
        return kept

    def load_state_dict(self, state: State) -> None:
        """Restore the selector's state."""
        if hasattr(self.selector, "load_state_dict"):
            self.selector.load_state_dict(state)


def _losses(view: RoundView, candidates: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return (d,) the model's mean loss on each candidate's data; NaN where it has reported none."""
    losses = dict(view.query(protocol.EVALUATE, dict.fromkeys(candidates.tolist(), view.base)))
    return np.array([losses.get(client, np.nan) for client in candidates.tolist()])


def report(outcomes: Sequence[ClientOutcome]) -> Report:
    """Return what a round's updates told, and the clients without a usable update."""
    ordered: list[ClientOutcome] = sorted(outcomes, key=lambda one: one.client)
    came = [one for one in ordered if one.result == "trained"]
    late = [one for one in ordered if one.result in _IN_VAIN or _waited_for(one)]

    def clients(of: list[ClientOutcome]) -> NDArray[np.int64]:
        return np.array([one.client for one in of], dtype=np.int64)

    losses, seconds = (np.array([getattr(one, name) for one in came], np.float64) for name in ("loss", "seconds"))
    waited = np.array([one.seconds or 0.0 for one in late], np.float64)
    return Report(clients(came), losses, seconds, clients(late), waited)  # None became NaN


def _waited_for(one: ClientOutcome) -> bool:
    return one.result in ("late", "surplus") and one.seconds is not None


class CentralSelection(AgeAwareStrategy):
    """Former name of a strategy over any selector: use ``AgeAwareStrategy(SelectorPolicy(selector, per_round))``."""

    def __init__(self, selector: Selector, per_round: int, **settings: Any) -> None:
        warnings.warn(
            "CentralSelection is now AgeAwareStrategy(SelectorPolicy(selector, per_round)).",
            DeprecationWarning,
            stacklevel=2,
        )
        described = {"kind": type(self).__name__}
        super().__init__(SelectorPolicy(selector, per_round, describe=described), **settings)


class RandomSelection(AgeAwareStrategy):
    """``per_round`` clients uniformly at random, weighted by data size (Javani & Wang 2025, Policy 1)."""

    def __init__(self, per_round: int, **settings: Any) -> None:
        traits = PolicyTraits(per_round, rates="known", own_weights="size")
        selector = _selector("random", per_round, settings)
        super().__init__(_policy(self, selector, traits), **settings)


class ProportionalSelection(AgeAwareStrategy):
    """``per_round`` draws with replacement, in proportion to data size (Javani & Wang 2025, Policy 2)."""

    def __init__(self, per_round: int, **settings: Any) -> None:
        traits = PolicyTraits(per_round, sizes="required", sizes_for="policy 'proportional'")
        selector = _selector("proportional", per_round, settings)
        super().__init__(_policy(self, selector, traits), **settings)


class OldestAge(AgeAwareStrategy):
    """The ``per_round`` clients that have waited longest, ties at random (Javani & Wang 2024, Remark 1)."""

    def __init__(self, per_round: int, **settings: Any) -> None:
        traits = PolicyTraits(per_round, rates="known")
        super().__init__(_policy(self, _selector("oldest-age", per_round, settings), traits), **settings)


class ReportedChoice(AgeAwareStrategy):
    """π_rpow-d: losses are those that came with each client's last update, of the model as it was then.

    Parameters
    ----------
    per_round : k
    candidates : d; 0: 2k
    """

    def __init__(self, per_round: int, candidates: int = 0, **settings: Any) -> None:
        super().__init__(_power_of_choice(self, per_round, candidates, settings, evaluates=False), **settings)


class AskedChoice(AgeAwareStrategy):
    """π_pow-d: the candidates evaluate the round's model before the selector chooses; d models more a round go out.

    Candidates answer as their function for ``evaluate`` does, with a loss on their own data. A client that does not
    respond is no candidate, and is named in the round's record.

    Parameters
    ----------
    per_round : k
    candidates : d; 0: 2k
    """

    def __init__(self, per_round: int, candidates: int = 0, **settings: Any) -> None:
        super().__init__(_power_of_choice(self, per_round, candidates, settings, evaluates=True), **settings)


class OortSelection(AgeAwareStrategy):
    """Oort (Lai et al. 2021): clients that have both much to teach and little time to take, weighted by data size.

    Seconds are measured, so that two runs of one seed differ; under a simulated clock they do not.

    Parameters
    ----------
    per_round : k
    oort : Oort's constants
    """

    def __init__(self, per_round: int, oort: OortSettings | None = None, **settings: Any) -> None:
        selector = _selector("oort", per_round, settings)
        selector = selector if oort is None else replace(selector, settings=oort)
        super().__init__(_policy(self, selector, more=asdict(selector.settings)), **settings)


class FedCSSelection(AgeAwareStrategy):
    """FedCS (Nishio & Yonetani 2019): at most ``per_round`` clients that are expected by the deadline.

    Weights are data sizes. Seconds are measured, so that two runs of one seed differ; under a simulated clock they do
    not.

    Parameters
    ----------
    per_round : k, the most that are chosen
    deadline : seconds
    candidates : d; 0: 2k
    """

    def __init__(self, per_round: int, deadline: float, candidates: int = 0, **settings: Any) -> None:
        keys = {"candidates": candidates, "train-timeout": deadline}
        selector = _selector("fedcs", per_round, settings, **keys)
        more = {"candidates": selector.candidates, "deadline": selector.deadline}
        super().__init__(_policy(self, selector, more=more), **settings)


class ReflSelection(AgeAwareStrategy):
    """REFL (Abdelmoniem et al. 2023): the ``per_round`` connected clients least likely to be there next.

    They weigh the same.

    Parameters
    ----------
    per_round : k
    """

    def __init__(self, per_round: int, **settings: Any) -> None:
        selector = _selector("refl", per_round, settings)
        super().__init__(_policy(self, selector, more={"rest": selector.rest}), **settings)


class F3astSelection(AgeAwareStrategy):
    """F3AST (Ribero, Vikalo & de Veciana 2022): unbiased, at rates that clients can keep up.

    The ``per_round`` clients are those whose rate lags most behind what the variance asks for; weights q_i/r_i act on
    updates.

    Parameters
    ----------
    per_round : k
    settings : those of the base; its own weights are the unbiased ones, by the rates learned
    """

    def __init__(self, per_round: int, **settings: Any) -> None:
        if settings.get("weights", AUTO) == AUTO:
            settings["weights"] = UNBIASED
        selector = _selector("f3ast", per_round, settings)
        selector.wanted = (settings.get("options") or RoundOptions()).enough or 0
        super().__init__(_policy(self, selector, PolicyTraits(per_round, rates="learned")), **settings)


def _policy(
    strategy: AgeAwareStrategy,
    selector: Any,
    traits: PolicyTraits | None = None,
    more: Mapping[str, Any] | None = None,
    *,
    evaluates: bool = False,
) -> SelectorPolicy:
    """Return the policy of a strategy, which the ledger calls by the strategy's name."""
    described = {"kind": type(strategy).__name__, **(more or {})}
    return SelectorPolicy(selector, selector.per_round, traits, describe=described, evaluates=evaluates)


def _power_of_choice(
    strategy: AgeAwareStrategy, per_round: int, candidates: int, settings: Mapping[str, Any], *, evaluates: bool
) -> SelectorPolicy:
    selector = _selector("pow-d" if evaluates else "rpow-d", per_round, settings, candidates=candidates)
    traits = PolicyTraits(per_round, sizes="optional", sizes_for="the draw of candidates")
    return _policy(strategy, selector, traits, {"candidates": selector.candidates}, evaluates=evaluates)


def _selector(name: str, per_round: int, settings: Mapping[str, Any], **keys: Any) -> Any:
    """Return a policy's selector, built from its row."""
    return ROWS[name].build({"clients-per-round": per_round, "seed": seed_of(settings), **keys})


def seed_of(settings: Mapping[str, Any]) -> int:
    """Return the seed that the settings of the base class hold; 0 by default."""
    options = settings.get("options")
    return 0 if options is None else int(options.seed)
