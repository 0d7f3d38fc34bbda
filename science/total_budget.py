"""A budget for a whole run beside the round's: rounds spend from it until it pays nobody more."""

import math
from dataclasses import dataclass, field

import numpy as np

from aoi_fl.science.budget import BudgetedSelector
from aoi_fl.science.selection import Population, Selection
from aoi_fl.science.spending import BudgetAccount, Floats


@dataclass
class BoundedSelector:
    """A budgeted selector whose rounds may spend so much together, and an account of what they spent.

    A round spends up to B, or up to what is left of the total if that is less; indices go by B all the while, so that
    the order of clients stays the same. Whoever is chosen is paid, whether its work comes or not.

    Attributes
    ----------
    selector : who is chosen under a round's budget B
    total : what all rounds together may spend, in the payments' unit; infinite: no bound but B
    account : what they have spent up to now

    Raises ConfigError: the total is not positive.
    """

    selector: BudgetedSelector
    total: float = math.inf
    account: BudgetAccount = field(init=False)

    def __post_init__(self) -> None:
        self.account = BudgetAccount(self.selector.budget, self.total)

    def select(self, round_: int, population: Population, bids: Floats | None = None) -> Selection:
        """Choose as :meth:`BudgetedSelector.select` does, within what is left, and pay the chosen.

        >>> clients = Population(np.zeros(2, int), np.ones(2), np.ones(2, bool), np.array([4.0, 3.0]), np.ones(2))
        >>> bounded = BoundedSelector(BudgetedSelector(10.0), total=9.0)
        >>> [bounded.select(t, clients).clients.tolist() for t in (1, 2)], bounded.account.left
        ([[0, 1], []], 2.0)
        """
        selection = self.selector.select(round_, population, bids, self.account.limit)
        paid = np.empty(0) if population.payments is None else population.payments[selection.clients]
        self.account.book(paid)
        return selection

    def over(self, payments: Floats) -> str | None:
        """Say why no further round can pay anybody with these (n,) payments, NaN where not known; None if one can."""
        left = self.account.left
        if math.isinf(left) or self.selector.affords(payments, self.account.limit):
            return None
        cheapest = np.nanmin(payments, initial=math.inf)
        return f"{left:.6g} is left of the total budget of {self.total:g}, and the smallest payment is {cheapest:.6g}"
