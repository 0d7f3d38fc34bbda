"""The interface of rules by which clients decide, shared by client, simulator, server and theory page."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeGuard

import numpy as np

from aoi_fl.science.types import Floats, Ints, Mask


@dataclass(frozen=True)
class Clocks:
    """The memory of n clients of their participations; (n,) arrays, n is 1 on a client.

    Attributes
    ----------
    last : the last round that each took part in; at first a virtual one, 0 or less
    counts : the number of that participation; None under a rule that does not count
    """

    last: Ints
    counts: Ints | None = None

    def ages(self, round_: int) -> Ints:
        """Return (n,) the rounds missed at the start of a round."""
        return round_ - 1 - self.last


@dataclass(frozen=True)
class Terms:
    """The terms by which a client decides.

    Attributes
    ----------
    table : p_0 … p_m, the probabilities to take part by age; empty under a rate
    rate : participations a round, for systematic participation; None: a table decides
    phase : u in [0, 1); None: the client draws its own
    jitter : J in [0, 1]; None: 0
    shift : the rest from a former rate; None: 0
    """

    table: tuple[float, ...] = ()
    rate: float | None = None
    phase: float | None = None
    jitter: float | None = None
    shift: float | None = None


class IntervalLaw(Protocol):
    """The law of the interval X between two participations, of one client or of all together."""

    @property
    def interval_mean(self) -> float:
        """E[X], in rounds."""

    @property
    def interval_variance(self) -> float:
        """Var[X], in rounds²."""

    def interval_pmf(self) -> Floats:
        """Return P(X = x) at position x−1."""

    def window_variances(self, windows: Any) -> list[float]:
        """Return Var(Y) of the participations in T rounds, for each T."""


class ParticipationRule:
    """A rule for the participation of n clients; a subclass needs :meth:`first_age` and :meth:`participates`.

    Every answer is a function of its arguments, so a repeated question gets the same answer.

    Attributes
    ----------
    coins : whether decisions use uniform numbers
    dropout : d, the probability that a willing client's work is lost, for the simulator
    """

    coins = True
    dropout: float = 0.0

    if TYPE_CHECKING:  # a field of some rules, for which a property here would be a default

        @property
        def clients(self) -> int:
            """Return n."""

    def first_age(self, round_: int, u: Floats) -> Ints:
        """Return (n,) the ages of clients that join at the start of a round, given uniform numbers in [0, 1)."""
        raise NotImplementedError

    def participates(self, clocks: Clocks, round_: int, u: Floats) -> Mask:
        """Return (n,) which clients take part in a round."""
        raise NotImplementedError

    def next_round(self, clocks: Clocks, round_: int, u: Floats) -> Ints:
        """Return (n,) the rounds, this one or later, that clients take part in next."""
        raise NotImplementedError

    def counts(self, last: Ints) -> Ints | None:
        """Return (n,) the numbers of the last participations due by these rounds; None: they are not counted."""
        return None

    def advance(self, clocks: Clocks, round_: int, took_part: Mask, forced: Mask | None = None) -> Clocks:
        """Return the clocks after a round, given (n,) which clients took part, and which of these were forced."""
        return Clocks(np.where(took_part, round_, clocks.last))

    def observe(self, available: Mask, round_: int) -> Self:
        """Return the rule after a round in which these (n,) clients were available."""
        return self

    def long_run_rates(self) -> Floats | None:
        """Return (n,) participations a round of each client in the long run; None: unknown."""
        return None


def is_decentralised(policy: object) -> TypeGuard[ParticipationRule]:
    """Return whether clients decide by this policy, and not a selector."""
    return callable(getattr(policy, "participates", None))
