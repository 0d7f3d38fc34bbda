"""Systematic participation: a rate and a phase tell a client, without coin or poll, every round it takes part in.

With rate r in (0, 1] and phase u in [0, 1), a client takes part in round t iff ⌊t·r + u⌋ > ⌊(t−1)·r + u⌋: each round
adds r to what it has accrued, and when that passes a whole number, a *stride* of 1/r rounds begins with its
participation. X is ⌊1/r⌋ or ⌈1/r⌉, so that Var[X] is the least that whole numbers of mean 1/r can have; and in any T
rounds a client takes part ⌊rT⌋ or ⌈rT⌉ times, however large T is.

A client that was out of reach when its round came takes part in the first one that it can, and several missed ones
count as one: so it keeps its rate, with a probability d of being out of reach too, where a table of probabilities would
have to be made for that d. Var[X] then grows by 2d/(1−d)², as long as a stride is seldom missed as a whole.

Clients whose phases are neighbours always train together. *Jitter* J in [0, 1] breaks such cohorts up: each
participation is put off by J·w strides, w uniform and new for every stride, J cut to 1−r so that two never fall into
one round. The rate stays what it is, to the last participation; what it costs says :mod:`aoi_fl.science.stride_laws`.

References
----------
W. G. Madow & L. H. Madow 1944, On the theory of systematic sampling, Ann. Math. Stat. 15(1).
C. A. Waldspurger & W. E. Weihl 1995, Stride scheduling, MIT/LCS/TM-528.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from aoi_fl.science import draws
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import PhaseRule
from aoi_fl.science.phases import make_phases
from aoi_fl.science.rates import Floats, check_rates, equal_rates
from aoi_fl.science.stride_laws import interval_variance
from aoi_fl.science.strides import JITTER, ClientStride, Rounds, Strides


@dataclass(frozen=True, eq=False)
class SystematicPolicy:
    """Systematic participation of n clients, the draws made as each client makes them alone.

    Attributes
    ----------
    rates, phases : (n,) r_i and u_i; see :mod:`aoi_fl.science.rates` and :mod:`aoi_fl.science.phases`
    jitter : J in [0, 1]
    seed : of the jitter

    Examples
    --------
    >>> policy = SystematicPolicy.equal(5, 2)
    >>> rounds = policy.participations()
    >>> [int(next(rounds).sum()) for _ in range(10)]
    [2, 2, 2, 2, 2, 2, 2, 2, 2, 2]
    """

    rates: Floats
    phases: Floats
    jitter: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.rates) != len(self.phases):
            raise ConfigError(
                "phases",
                len(self.phases),
                f"{len(self.rates)} numbers, as many as rates",
                "Give each client one of both.",
            )
        self.strides  # noqa: B018  refuses what is out of range

    @classmethod
    def equal(
        cls, clients: int, per_round: int, phases: PhaseRule = "spread", jitter: float = 0.0, seed: int = 0
    ) -> "SystematicPolicy":
        """Return the policy of rates k/n; with spread phases and no jitter exactly k take part in every round."""
        return cls.rated(equal_rates(clients, per_round), phases, jitter, seed)

    @classmethod
    def rated(
        cls, rates: Floats, phases: PhaseRule = "spread", jitter: float = 0.0, seed: int = 0
    ) -> "SystematicPolicy":
        """Return the policy of the rates given, with phases by a rule."""
        check_rates(rates)
        return cls(rates, make_phases(phases, rates, seed), jitter, seed)

    @property
    def clients(self) -> int:
        """Return n."""
        return len(self.rates)

    @cached_property
    def strides(self) -> Strides:
        """The clients' strides."""
        return Strides(self.rates, self.phases, self.jitter)

    def client(self, number: int) -> ClientStride:
        """Return what one client plays on its own."""
        return ClientStride(float(self.rates[number]), float(self.phases[number]), self.jitter, self.seed, number)

    @property
    def first_ages(self) -> Rounds:
        """Return (n,) ages at the start of round 1, in rounds missed since the last, virtual participation."""
        strides = self.strides
        start, due = self._pending()
        before = strides.last_start(start - 1)
        return -np.where(due <= 0, due, strides.due(before, self._uniforms(0)))

    def participations(self) -> Iterator[NDArray[np.bool_]]:
        """Yield (n,) who takes part in round 1, 2, 3, … without end; O(n) a round, about 40 bytes a client."""
        strides = self.strides
        _, due = self._pending()
        round_ = 0
        while True:
            round_ += 1
            begins = strides.begin(round_)
            if self.jitter:
                due = np.where(begins, strides.due(round_, self._uniforms(round_)), due)
                yield due == round_
            else:
                yield begins

    def interval_variances(self) -> Floats:
        """Return (n,) Var[X_i], in rounds²."""
        distinct, which = np.unique(self.rates, return_inverse=True)
        found: Floats = np.array([interval_variance(rate, self.jitter) for rate in distinct.tolist()])[which]
        return found

    def _pending(self) -> tuple[Rounds, Rounds]:
        """Return when the strides began that clients are in at the end of round 0, and when they take part in them."""
        start = self.strides.last_start(0)
        return start, self.strides.due(start, self._uniforms(0))

    def _uniforms(self, round_: int) -> Floats:
        return draws.uniforms(self.seed, round_, JITTER, len(self.rates)) if self.jitter else np.zeros(len(self.rates))
