"""Money: the rest of a round's budget, and the account of a run.

A sum above the budget by no more than 4·10^-15 of it counts as equal to it. So a budget of 1.0 pays for ten clients at
0.1, 0.3 for 0.1 and 0.2, and 40 for three at 40/3, in any order.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from aoi_fl.science.errors import ConfigError
from aoi_fl.science.types import Floats, Ints, Mask

_BITS = 60  # a budget has about 2^60 units, the finest that 64 bits hold twice
_ROUNDING = 1 << 12  # units, 2^-48 of the budget: what rounding may add to a sum


class RoundBudget:
    """The rest of a round's budget B > 0, in whole units; with ``strict``, less than B can be spent, not B.

    Payments are rounded to units in favour of the comparison with B, ≤ or <, at equality.
    """

    def __init__(self, budget: float, strict: bool = False) -> None:
        self._scale = _BITS - math.frexp(budget)[1]
        self._dearest = 2 * budget
        self._round = np.ceil if strict else np.floor
        self._left = int(math.ldexp(budget, self._scale)) + (-_ROUNDING if strict else _ROUNDING)

    def _units(self, payments: Floats) -> Ints:
        # A payment of twice the budget is as good as any larger, and stays within 64 bits.
        return self._round(np.ldexp(np.minimum(payments, self._dearest), self._scale)).astype(np.int64)

    @property
    def left(self) -> float:
        """The rest, in the budget's unit: no payment above it can be paid, one just below it perhaps."""
        return math.ldexp(self._left + 1, -self._scale) * (1 + 1e-9)

    def affords(self, payments: Floats) -> Mask:
        """Return which payments, each alone, the rest can pay."""
        return self._units(payments) <= self._left

    def take(self, clients: Ints, payments: Floats, stop_at_first: bool = False) -> Ints:
        """Pay for clients in the order given, and return those paid for.

        ``clients`` and ``payments`` are (m,), first choice first. A client that the rest cannot pay for is skipped, or
        ends the round with ``stop_at_first``.
        """
        paid = []
        for client, units in zip(clients.tolist(), self._units(payments).tolist(), strict=True):
            if units <= self._left:
                self._left -= units
                paid.append(client)
            elif stop_at_first:
                break
        return np.array(paid, dtype=np.int64)


@dataclass
class BudgetAccount:
    """The spending of a run's rounds.

    Attributes
    ----------
    budget : B, a round's
    total : of all rounds together; may be infinite
    spent : a figure for each round booked so far, never above the budget
    paid, rounding : the run's spending, before a break too, and the rest of the exact sum
    """

    budget: float
    total: float = math.inf
    spent: list[float] = field(default_factory=list)
    paid: float = 0.0
    rounding: float = 0.0

    def __post_init__(self) -> None:
        if not self.total > 0:
            raise ConfigError("total-budget", self.total, "a positive number", "Raise it, or leave it out.")

    @property
    def left(self) -> float:
        """The rest for the rounds to come; 0 where it is no more than rounding."""
        if math.isinf(self.total):
            return self.total
        left = math.fsum((self.total, -self.paid, -self.rounding))
        return left if left > self._slack else 0.0

    @property
    def limit(self) -> float:
        """The limit of the next round: B, or the rest, to within the rounding of the total."""
        return min(self.budget, self.left + self._slack) if self.left else 0.0

    @property
    def _slack(self) -> float:
        return math.ldexp(self.total, -_BITS) * _ROUNDING

    def book(self, payments: Floats) -> None:
        """Enter a round's payments; ValueError if they exceed its limit."""
        total, limit = math.fsum(payments), self.limit
        paid = RoundBudget(limit).take(np.arange(payments.size), payments).size if limit else 0
        if paid < payments.size:
            what = "the budget of" if limit == self.budget else "what is left of the total budget,"
            raise ValueError(f"round {len(self.spent) + 1} spends {total:g}, more than {what} {limit:g}")
        # 15 digits are what a binary number keeps of a decimal one: 13.33 + 26.65 is 39.98 again.
        self.spent.append(min(float(f"{total:.15g}"), limit))
        exact = self.paid, self.rounding, total
        self.paid = math.fsum(exact)
        self.rounding = math.fsum((*exact, -self.paid))


def check_budget(budget: float) -> None:
    """Raise ConfigError for a budget that is not a positive, finite number."""
    if not (budget > 0 and math.isfinite(budget)):
        raise ConfigError("budget", budget, "a positive number, in the unit of the payments", "Raise it.")
