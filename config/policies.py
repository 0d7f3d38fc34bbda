"""Every policy by its name: one row each.

A new policy is a module of :mod:`aoi_fl.science` and a row. The module has a selector, called with k, the seed and the
row's further arguments; or a :class:`aoi_fl.science.rule.ParticipationRule`, called with n, k and
these arguments.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from aoi_fl.science.names import Index, is_well_formed

if TYPE_CHECKING:
    from aoi_fl.science.budget import BudgetedSelector
    from aoi_fl.science.markov import MarkovPolicy
    from aoi_fl.science.participation import SystematicRule
    from aoi_fl.science.systematic import SystematicPolicy
    from aoi_fl.science.types import Floats

Keys: TypeAlias = Mapping[str, Any]
Rates: TypeAlias = "Floats | None"  # (n,) each client's own; None: k/n


@dataclass(frozen=True)
class PolicyRow:
    """A policy.

    Attributes
    ----------
    name : the value of the run key ``policy``
    code : ``"module:attribute"`` within :mod:`aoi_fl` of the selector or rule; or a function of all run keys and rates
    maker : ``"module:attribute"`` within :mod:`aoi_fl.strategies.selection` of the strategy's factory. In ``selector``
        the attribute is the name of a strategy made from this row; ``own:by_keys`` is for any rule
    keys : run keys that the policy uses, beside those of every policy
    who, weight, source : selected clients, aggregation weight and paper, for the table of policies
    index : order in which a budgeted policy pays clients
    rates : whether each client's rate is known before round 1, learned, or unknown; unbiased weights need it
    arguments : run keys that are the factory's positional arguments; empty: it takes all run keys as a mapping
    named : run keys that are arguments of the factory by name
    traits : facts of a selector for :class:`aoi_fl.strategies.policy.PolicyTraits`
    evaluates : whether candidates evaluate the model before the selector chooses
    separated : whether a client's participations can have a least number of rounds between them
    """

    name: str
    code: "str | Callable[[Keys, Rates], Any]"
    maker: str
    keys: frozenset[str]
    who: str
    weight: str
    source: str
    index: Index | None = None
    rates: Literal["unknown", "known", "learned"] = "unknown"
    arguments: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    traits: Mapping[str, Any] = field(default_factory=dict, hash=False)
    evaluates: bool = False
    separated: bool = False

    @property
    def by_data(self) -> bool:
        """Whether clients are selected by reports about their data, which no noise of the model hides."""
        return isinstance(self.code, str) and (self.evaluates or hasattr(self.load(), "learn"))

    def load(self) -> Any:
        """Return the class of the selector or rule."""
        return _found(f"aoi_fl.{self.code}")

    def build(self, keys: Keys, rates: Rates = None) -> Any:
        """Build the policy's object without Flower: a selector, or the clients' participation rule.

        Parameters
        ----------
        keys : all run keys
        rates : (n,) each client's own rate, for policies with the key ``rates``; None: k/n
        """
        if not isinstance(self.code, str):
            return self.code({**keys, "index": self.index}, rates)
        if "coordination" in self.keys:
            return self.load()(*(keys[key] for key in self.arguments or _SIZES))
        per_round, *more = (keys[key] for key in self.arguments)
        return self.load()(per_round, keys["seed"], *more)

    def make(self, keys: Keys, **settings: Any) -> Any:
        """Return the strategy, an ``AgeAwareStrategy``, for these run keys."""
        factory = _found(f"aoi_fl.strategies.selection.{self.maker}")
        named = {key: keys[key] for key in self.named}
        return factory(*([keys[key] for key in self.arguments] or [keys]), **named, **settings)


def _found(place: str) -> Any:
    """Return what a module has under a dotted name, ``"module:name"``."""
    module, _, name = place.partition(":")
    return attrgetter(name)(import_module(module))


def _markov_optimal(keys: Keys, rates: Rates) -> "MarkovPolicy":
    """Return the optimal table, or a table for each client's own rate."""
    from aoi_fl.science.markov import MarkovPolicy
    from aoi_fl.science.rates import equal_rates

    n, k = keys["num-clients"], keys["clients-per-round"]
    if keys["compensate"] == "availability":
        return MarkovPolicy.learning(equal_rates(n, k) if rates is None else rates)
    if rates is not None:
        return MarkovPolicy.rated(rates)
    return MarkovPolicy.optimal(n, k, keys["max-age"])


def _systematic(keys: Keys, rates: Rates) -> "SystematicPolicy | SystematicRule":
    """Return systematic participation."""
    from aoi_fl.science.participation import SystematicRule
    from aoi_fl.science.rates import equal_rates
    from aoi_fl.science.systematic import SystematicPolicy

    rates = equal_rates(keys["num-clients"], keys["clients-per-round"]) if rates is None else rates
    if keys["compensate"] == "availability":
        return SystematicRule.learning(rates, keys["seed"])
    return SystematicPolicy.rated(rates, keys["phases"], keys["jitter"], keys["seed"])


def _budgeted(keys: Keys, rates: Rates) -> "BudgetedSelector":
    """Return a selector that spends a budget by the order of an index."""
    from aoi_fl.science.budget import BudgetedSelector

    total = keys["total-budget"] or math.inf
    return BudgetedSelector(keys["budget"], keys["index"], keys["seed"], ageing=keys["ageing"], total=total)


def _own(keys: Keys, rates: Rates) -> Any:
    """Return the selector, rule or policy of a user's own module."""
    made: Any = import_module("aoi_fl.strategies.selection.own")
    names = ("policy", "model-dir", "num-clients", "clients-per-round", "seed")
    return made.make_own(*(keys[key] for key in names))


DEFAULT = "markov-optimal"
_SIZES = ("num-clients", "clients-per-round")
_COORDINATED = frozenset({"coordination", "round-seconds"})
_RATED = _COORDINATED | {"rates", "clients-file", "compensate"}
_SPENT = frozenset({"budget", "total-budget"})
_BUDGET = _SPENT | {"index-source", "trains", "clients-file", "staleness-rates"}
_SENSITIVE = _BUDGET | {"sensitivities"}

_ROWS = (
    PolicyRow(
        "markov-optimal",
        _markov_optimal,
        "markov:MarkovParticipation.optimal",
        _RATED | {"max-age"},
        "each client by its own coin p[age]; least variance of X",
        "equal",
        "Javani & Wang 2024, Theorem 2",
        rates="known",
        arguments=(*_SIZES, "max-age"),
        named=("rates", "compensate", "coordination"),
        separated=True,
    ),
    PolicyRow(
        "markov-increasing",
        "science.markov:MarkovPolicy.increasing",
        "markov:MarkovParticipation.increasing",
        _COORDINATED | {"max-age", "exponent"},
        "the same, with p growing strictly with age",
        "equal",
        "Javani & Wang 2025, Section III-B",
        rates="known",
        arguments=(*_SIZES, "max-age", "exponent"),
        named=("coordination",),
    ),
    PolicyRow(
        "systematic",
        _systematic,
        "systematic:SystematicParticipation",
        _RATED | {"phases", "jitter"},
        "each client by a rate and a phase, without a coin; its next round is known",
        "equal",
        "Madow & Madow 1944",
        rates="known",
        arguments=_SIZES,
        named=("rates", "compensate", "coordination", "phases", "jitter"),
        separated=True,
    ),
    PolicyRow(
        "random",
        "science.selection:RandomSelector",
        "selector:RandomSelection",
        frozenset(),
        "k clients, uniformly",
        "data size",
        "Javani & Wang 2025, Policy 1",
        rates="known",
        traits={"own_weights": "size"},
        arguments=("clients-per-round",),
    ),
    PolicyRow(
        "proportional",
        "science.selection:ProportionalSelector",
        "selector:ProportionalSelection",
        frozenset(),
        "k draws with replacement, by data size",
        "times drawn",
        "Javani & Wang 2025, Policy 2",
        arguments=("clients-per-round",),
        traits={"sizes": "required"},
    ),
    PolicyRow(
        "oldest-age",
        "science.selection:OldestAgeSelector",
        "selector:OldestAge",
        frozenset(),
        "the k clients with the largest ages",
        "equal",
        "Javani & Wang 2024, Remark 1",
        rates="known",
        separated=True,
        arguments=("clients-per-round",),
    ),
    PolicyRow(
        "pow-d",
        "lab.rivals.power_of_choice:PowerOfChoice",
        "selector:AskedChoice",
        frozenset({"candidates"}),
        "of candidates drawn by size, the k with the highest loss; they evaluate the model first",
        "equal",
        "Cho, Wang & Joshi 2022, π_pow-d",
        arguments=("clients-per-round", "candidates"),
        traits={"sizes": "optional"},
        evaluates=True,
    ),
    PolicyRow(
        "rpow-d",
        "lab.rivals.power_of_choice:PowerOfChoice",
        "selector:ReportedChoice",
        frozenset({"candidates"}),
        "the same by the last reported losses, without a question",
        "equal",
        "Cho, Wang & Joshi 2022, π_rpow-d",
        arguments=("clients-per-round", "candidates"),
        traits={"sizes": "optional"},
    ),
    PolicyRow(
        "oort",
        "lab.rivals.oort:OortSelector",
        "selector:OortSelection",
        frozenset({"foresight"}),
        "clients with a high loss and a short training time, explored gradually",
        "data size",
        "Lai et al. 2021, Algorithm 1",
        arguments=("clients-per-round",),
    ),
    PolicyRow(
        "fedcs",
        "lab.rivals.fedcs:FedCS",
        "selector:FedCSSelection",
        frozenset({"candidates", "foresight"}),
        "of candidates, as many as can meet the deadline, at most k",
        "data size",
        "Nishio & Yonetani 2019, Algorithm 3",
        arguments=("clients-per-round", "train-timeout", "candidates"),
    ),
    PolicyRow(
        "refl",
        "lab.rivals.refl:Refl",
        "selector:ReflSelection",
        frozenset({"foresight"}),
        "of the available clients, the k least likely to be available next",
        "equal",
        "Abdelmoniem et al. 2023, Section 4.1",
        arguments=("clients-per-round",),
    ),
    PolicyRow(
        "f3ast",
        "lab.rivals.f3ast:F3ast",
        "selector:F3astSelection",
        frozenset(),
        "the k clients furthest below target rates, which suit their availability and minimise the variance",
        "unbiased",
        "Ribero et al. 2022, Algorithm 1",
        rates="learned",
        arguments=("clients-per-round",),
    ),
    PolicyRow(
        "wics",
        _budgeted,
        "budgeted:BudgetedRefresh.by_keys",
        _SENSITIVE | {"ageing"},
        "the highest Whittle indices, within a budget",
        "data size",
        "Xu et al. 2024, Algorithm 1",
        "whittle",
    ),
    PolicyRow(
        "abs",
        _budgeted,
        "budgeted:BudgetedRefresh.by_keys",
        _SENSITIVE,
        "a rival of WICS under the same budget: age times sensitivity over payment first",
        "data size",
        "Xu et al. 2024, Section 5",
        "abs",
    ),
    PolicyRow(
        "maxpack",
        _budgeted,
        "budgeted:BudgetedRefresh.by_keys",
        _BUDGET,
        "a rival of WICS under the same budget: oldest data first",
        "data size",
        "Xu et al. 2024, Section 5",
        "maxpack",
    ),
    PolicyRow(
        "random-budget",
        _budgeted,
        "budgeted:BudgetedRefresh.by_keys",
        _BUDGET - {"index-source"},
        "a rival of WICS under the same budget: in random order",
        "data size",
        "Xu et al. 2024, Section 5",
        "random",
    ),
)


class _Registry(dict[str, PolicyRow]):
    """The rows by name; your own policy, ``python:MODULE:NAME``, has a row as well, but is not listed."""

    def __missing__(self, name: str) -> PolicyRow:
        if not is_well_formed(name):
            raise KeyError(name)
        of_yours = ("by code of your own", "its own", "your own module")
        return PolicyRow(name, _own, "own:by_keys", _COORDINATED, *of_yours, rates="known")


REGISTRY: Mapping[str, PolicyRow] = _Registry((row.name, row) for row in _ROWS)
POLICIES = tuple(REGISTRY)
OWN = "python:MODULE:NAME"  # the name of a user's own policy
BUDGETED: Mapping[str, Index] = {row.name: row.index for row in _ROWS if row.index is not None}
STRATEGIES = {
    row.maker.removeprefix("selector:"): row.name for row in _ROWS if row.maker.startswith("selector:")
}  # names in aoi_fl.strategies of the strategies that are made from rows
SEPARATED = tuple(row.name for row in _ROWS if row.separated)
KEYS = frozenset().union(*(row.keys for row in _ROWS))  # keys that not every policy uses


def is_policy(name: str) -> bool:
    """Return whether a name is a policy's, or has the form of a user's own policy."""
    return name in REGISTRY or is_well_formed(name)


def users_of(key: str) -> list[str]:
    """Return the names of the policies that use a key."""
    return [row.name for row in _ROWS if key in row.keys]
