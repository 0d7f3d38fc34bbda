"""Selection under a budget: greedily by an index, skipping clients that do not fit."""

import math
from dataclasses import dataclass, field
from typing import get_args

import numpy as np

from aoi_fl.science import draws
from aoi_fl.science.ageing import ageing_cost, ageing_index
from aoi_fl.science.errors import ConfigError, check_choice
from aoi_fl.science.names import Ageing, Index
from aoi_fl.science.selection import Population, Selection, by_size
from aoi_fl.science.spending import BudgetAccount, RoundBudget, check_budget
from aoi_fl.science.types import Floats, Ints
from aoi_fl.science.whittle import abs_index, maxpack_index, whittle_index

_SHORT = 1 << 16  # a list no longer than this is sorted whole
_PART = 16  # of a longer list, the part that is sorted first


def choose(index: Floats, payments: Floats, budget: float, strict: bool = False, stop_at_first: bool = False) -> Ints:
    """Return the clients, ascending, that a budget pays for when taken in descending order of an index.

    A client that does not fit is skipped: constraint (8) and the loop of Algorithm 1 in Xu et al. 2024, with ≤ B for
    its literal <. Ties go to the lower client number.

    Parameters
    ----------
    index, payments : (n,); a client with NaN in either is left out
    budget : B > 0
    strict : spend less than B only, the literal <
    stop_at_first : stop at the first client that does not fit, as the prose of Section 4.3 has it
    """
    candidates = ~(np.isnan(index) | np.isnan(payments))
    purse, chosen = RoundBudget(budget, strict), np.zeros(index.size, dtype=np.bool_)
    size = index.size if stop_at_first else max(index.size // _PART, _SHORT)
    while True:  # the first of the order, then twice as many: sorting takes longer than finding them
        if not stop_at_first:
            candidates &= payments <= purse.left
        group = np.flatnonzero(candidates)
        if not group.size:
            return np.flatnonzero(chosen)
        order = -index[group]
        if size < group.size:
            first = order <= np.partition(order, size)[size]  # equal indices stay together
            group, order = group[first], order[first]
        group = group[np.argsort(order, kind="stable")]
        chosen[purse.take(group, payments[group], stop_at_first)] = True
        candidates[group] = False
        size *= 2


@dataclass(eq=False)
class BudgetedSelector:
    """WICS and its rivals: the clients that fit into the budget, in descending order of an index.

    Unavailable clients, and those without examples or with an unknown payment or sensitivity (NaN), are left out.
    ``random`` takes as index a uniform draw for each client, :func:`aoi_fl.science.draws.uniforms` with purpose
    ``"random-budget"``.

    A round spends up to B, or up to the rest of the total. Indices go by B, so the order of clients stays the same. A
    chosen client is paid once its update has arrived.

    Attributes
    ----------
    budget : B > 0, of a round
    index : ``whittle`` (WICS), ``abs``, ``maxpack`` or ``random``
    seed : the run's, used by ``random`` only
    strict, stop_at_first : the paper's literal variants, see :func:`choose`
    ageing : ``linear``, the paper's, or another ageing cost of :mod:`aoi_fl.science.ageing`; for ``whittle`` only
    total : of all rounds together, in the payments' unit; may be infinite
    account : of the spending

    Source: Xu et al. 2024, Algorithm 1 and Section 5.1.

    >>> clients = Population(np.zeros(2, int), np.ones(2), np.ones(2, bool), np.array([4.0, 3.0]), np.ones(2))
    >>> selector = BudgetedSelector(10.0, total=9.0)
    >>> selector.select(1, clients).clients.tolist()
    [0, 1]
    >>> selector.pay(clients.payments)
    >>> selector.select(2, clients).clients.tolist(), selector.account.left
    ([], 2.0)
    """

    budget: float
    index: Index = "whittle"
    seed: int = 0
    strict: bool = False
    stop_at_first: bool = False
    ageing: Ageing = "linear"
    total: float = math.inf
    account: BudgetAccount = field(init=False)

    def __post_init__(self) -> None:
        check_budget(self.budget)
        check_choice("index", self.index, get_args(Index))
        ageing_cost(self.ageing)
        if self.ageing != "linear" and self.index != "whittle":
            raise ConfigError(
                "ageing", self.ageing, f"left out for index {self.index!r}", "Leave it out, or use whittle."
            )
        self.account = BudgetAccount(self.budget, self.total)

    def select(self, round_: int, population: Population, bids: Floats | None = None) -> Selection:
        """Choose among the available clients, with the aggregation weights d_i/Σ_S d_j of eq. (2) over the chosen.

        At the peak it takes at most 64 bytes a client, the index and the selection included; O(n log n) time at worst.
        ``bids`` are (n,) the clients' own indices, in place of the server's; NaN leaves a client out.
        Raises ConfigError if payments or sensitivities are needed and unknown.
        """
        if population.payments is None:
            raise ConfigError("payments", None, "known for every client under a budget", "Set each client's payment.")
        index = self.indices(round_, population, population.payments) if bids is None else bids
        may, strict = self._bound
        reachable = np.where(population.available & (population.sizes > 0) & (may > 0), index, np.nan)
        chosen = choose(reachable, population.payments, may, strict, self.stop_at_first)
        return by_size(chosen, population.sizes)

    @property
    def _bound(self) -> tuple[float, bool]:
        """Return the most that a round may spend, and whether it must stay below that."""
        limit = self.account.limit
        return limit, self.strict and limit >= self.budget

    def indices(self, round_: int, population: Population, payments: Floats) -> Floats:
        """Return (n,) the index of every client by the server's knowledge; raise ConfigError as :meth:`select` does."""
        if self.index == "random":
            return draws.uniforms(self.seed, round_, "random-budget", population.ages.size)
        if self.index == "maxpack":
            return maxpack_index(population.ages)
        if population.sensitivities is None:
            allowed = f"known for every client under index {self.index!r}"
            raise ConfigError("sensitivities", None, allowed, "Set each client's sensitivity.")
        if self.index == "abs":
            return abs_index(population.ages, payments, population.sensitivities)
        if self.ageing == "linear":
            return whittle_index(population.ages, payments, population.sensitivities, self.budget)
        return ageing_index(population.ages, payments, population.sensitivities, self.budget, self.ageing)

    def pay(self, payments: Floats) -> None:
        """Pay for the updates of a round; ValueError if they exceed its budget."""
        self.account.book(payments)

    def over(self, payments: Floats) -> str | None:
        """Return why no further round can pay any of these (n,) payments, NaN where unknown; None if one can."""
        left, (may, strict) = self.account.left, self._bound
        known = payments[np.isfinite(payments)]
        if math.isinf(left) or (may > 0 and RoundBudget(may, strict).affords(known).any()):
            return None
        cheapest = np.nanmin(payments, initial=math.inf)
        return f"{left:.6g} is left of the total budget of {self.total:g}, and the smallest payment is {cheapest:.6g}"
