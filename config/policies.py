"""The table of policies. A new policy needs a module with its strategy, and a row here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from aoi_fl.science.names import Index, is_well_formed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class PolicyRow:
    """A policy.

    Attributes
    ----------
    name : the value of the run key ``policy``
    maker : ``"module:attribute"`` within :mod:`aoi_fl.strategies.selection` of the strategy's factory
    keys : the run keys that this policy uses, except those that all policies use
    who, weight, source : the clients of a round, their aggregation weight, and the paper
    index : the index of a budgeted policy
    rates : whether the clients' rates are known before round 1, learned, or unknown; unbiased weights need them
    arguments : the run keys that are the factory's positional arguments; if empty, it receives all keys as a mapping
    """

    name: str
    maker: str
    keys: frozenset[str]
    who: str
    weight: str
    source: str
    index: Index | None = None
    rates: Literal["unknown", "known", "learned"] = "unknown"
    arguments: tuple[str, ...] = ()

    def build(
        self,
        keys: Mapping[str, Any],
        rates: "NDArray[np.float64] | None" = None,
        *,
        dropout: float = 0.0,
    ) -> Any:
        """Build the policy's object without Flower: a selector, or the clients' participation rule.

        Parameters
        ----------
        keys : all run keys
        rates : (n,) each client's own rate, for policies with the key ``rates``; None: k/n
        dropout : probability that a willing client is lost, for `markov-optimal`
        """
        from aoi_fl.config import build  # NumPy is loaded when a policy is built

        if self.index is not None:
            return build.budgeted(keys, self.index)
        if self.name == "markov-optimal":
            return build.markov_optimal(keys, rates, dropout)
        return build.systematic(keys, rates) if self.name == "systematic" else build.CENTRAL[self.name](keys)


_COORDINATED = frozenset({"coordination", "round-seconds"})
_RATED = _COORDINATED | {"rates", "clients-file", "compensate"}
_SPENT = frozenset({"budget", "budget-rule"})
_BUDGET = _SPENT | {"index-source", "trains", "clients-file"}
_SENSITIVE = _BUDGET | {"sensitivities"}

_ROWS = (
    PolicyRow(
        "markov-optimal", "markov:MarkovParticipation.optimal_by_keys", _RATED | {"max-age"},
        "each client by its own coin p[age]; least variance of X", "equal", "Javani & Wang 2024, Theorem 2",
        rates="known",
    ),
    PolicyRow(
        "markov-increasing", "markov:MarkovParticipation.increasing_by_keys", _COORDINATED | {"max-age", "exponent"},
        "the same, with p growing strictly with age", "equal", "Javani & Wang 2025, Section III-B",
        rates="known",
    ),
    PolicyRow(
        "systematic", "systematic:SystematicParticipation.by_keys", _RATED | {"phases"},
        "each client by a rate and a phase, without a coin; its next round is known", "equal", "Madow & Madow 1944",
        rates="known",
    ),
    PolicyRow(
        "random", "selector:RandomSelection", frozenset(),
        "k clients, uniformly", "data size", "Javani & Wang 2025, Policy 1",
        rates="known",
        arguments=("clients-per-round",),
    ),
    PolicyRow(
        "proportional", "selector:ProportionalSelection", frozenset(),
        "k draws with replacement, by data size", "times drawn", "Javani & Wang 2025, Policy 2",
        arguments=("clients-per-round",),
    ),
    PolicyRow(
        "oldest-age", "selector:OldestAge", frozenset(),
        "the k clients with the largest ages", "equal", "Javani & Wang 2024, Remark 1",
        rates="known",
        arguments=("clients-per-round",),
    ),
    PolicyRow(
        "pow-d", "selector:AskedChoice", frozenset({"candidates"}),
        "of candidates drawn by size, the k with the highest loss; they evaluate the model first", "equal",
        "Cho, Wang & Joshi 2022, π_pow-d",
        arguments=("clients-per-round", "candidates"),
    ),
    PolicyRow(
        "rpow-d", "selector:ReportedChoice", frozenset({"candidates"}),
        "the same by the last reported losses, without a question", "equal", "Cho, Wang & Joshi 2022, π_rpow-d",
        arguments=("clients-per-round", "candidates"),
    ),
    PolicyRow(
        "oort", "selector:OortSelection", frozenset({"foresight"}),
        "clients with a high loss and a short training time, explored gradually", "data size",
        "Lai et al. 2021, Algorithm 1",
        arguments=("clients-per-round",),
    ),
    PolicyRow(
        "fedcs", "selector:FedCSSelection", frozenset({"candidates", "foresight"}),
        "of candidates, as many as can meet the deadline, at most k", "data size",
        "Nishio & Yonetani 2019, Algorithm 3",
        arguments=("clients-per-round", "train-timeout", "candidates"),
    ),
    PolicyRow(
        "refl", "selector:ReflSelection", frozenset({"foresight"}),
        "of the available clients, the k least likely to be available next", "equal",
        "Abdelmoniem et al. 2023, Section 4.1",
        arguments=("clients-per-round",),
    ),
    PolicyRow(
        "f3ast", "selector:F3astSelection", frozenset(),
        "the k clients furthest below target rates, which suit their availability and minimise the variance",
        "unbiased", "Ribero et al. 2022, Algorithm 1",
        rates="learned",
        arguments=("clients-per-round",),
    ),
    PolicyRow(
        "wics", "budgeted:BudgetedRefresh.by_keys", _SENSITIVE | {"ageing"},
        "the highest Whittle indices, within a budget", "data size", "Xu et al. 2024, Algorithm 1",
        "whittle",
    ),
    PolicyRow(
        "abs", "budgeted:BudgetedRefresh.by_keys", _SENSITIVE,
        "a rival of WICS under the same budget: age times sensitivity over payment first", "data size",
        "Xu et al. 2024, Section 5", "abs",
    ),
    PolicyRow(
        "maxpack", "budgeted:BudgetedRefresh.by_keys", _BUDGET,
        "a rival of WICS under the same budget: oldest data first", "data size", "Xu et al. 2024, Section 5", "maxpack",
    ),
    PolicyRow(
        "random-budget", "budgeted:BudgetedRefresh.by_keys", _BUDGET - {"index-source"},
        "a rival of WICS under the same budget: in random order", "data size", "Xu et al. 2024, Section 5", "random",
    ),
)  # fmt: skip


ROWS: Mapping[str, PolicyRow] = {row.name: row for row in _ROWS}
POLICIES = tuple(ROWS)
OWN = "python:MODULE:NAME"  # the name of a user's own policy
BUDGETED: Mapping[str, Index] = {row.name: row.index for row in _ROWS if row.index is not None}
KEYS = frozenset().union(*(row.keys for row in _ROWS))  # keys that not every policy uses


def is_policy(name: str) -> bool:
    """Return whether a name is a policy's, or has the form of a user's own policy."""
    return name in ROWS or is_well_formed(name)


def users_of(key: str) -> list[str]:
    """Return the names of the policies that use a key."""
    return [row.name for row in _ROWS if key in row.keys]


def row_of(name: str) -> PolicyRow:
    """Return the row of a policy, or an unlisted row for your own, ``python:MODULE:NAME``."""
    own = PolicyRow(
        name, "own:by_keys", _COORDINATED, "by code of your own", "its own", "your own module", rates="known"
    )
    return ROWS[name] if not is_well_formed(name) else own
