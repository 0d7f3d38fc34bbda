"""Systematic participation: a rate and a phase give a client all its rounds, without coin or poll.

With rate r in (0, 1] and phase u in [0, 1), a client takes part in round t iff ⌊t·r + u⌋ > ⌊(t−1)·r + u⌋. At each whole
number a *stride* of 1/r rounds begins with a participation. X is ⌊1/r⌋ or ⌈1/r⌉, so Var[X] is the least for whole
numbers of mean 1/r; in any T rounds a client takes part ⌊rT⌋ or ⌈rT⌉ times.

An unavailable client makes up its round in the first one that it can, and several missed ones count as one. So it keeps
its rate under a dropout d, where a table would have to be made for d. Var[X] grows by 2d/(1−d)², as long as a stride is
seldom missed as a whole.

Clients with neighbouring phases always train together. *Jitter* J in [0, 1] breaks such cohorts up: each participation
is put off by J·w strides, w uniform and new for every stride, J cut to 1−r so that two never fall into one round. The
rate stays the same; :mod:`aoi_fl.science.interval_law` has the price.

References
----------
W. G. Madow & L. H. Madow 1944, On the theory of systematic sampling, Ann. Math. Stat. 15(1).
C. A. Waldspurger & W. E. Weihl 1995, Stride scheduling, MIT/LCS/TM-528.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Self

import numpy as np

from aoi_fl.science import draws
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.interval_law import MixedLaw, StrideLaw
from aoi_fl.science.names import PhaseRule
from aoi_fl.science.phases import PHASE, make_phases
from aoi_fl.science.rates import check_rates, equal_rates
from aoi_fl.science.rule import Clocks, IntervalLaw, ParticipationRule, Terms
from aoi_fl.science.strides import JITTER, Strides
from aoi_fl.science.types import Floats, Ints, Mask


@dataclass(frozen=True, eq=False)
class SystematicPolicy(ParticipationRule):
    """Systematic participation of n clients, with the draws that each client makes alone.

    A client counts its participations. It makes up a missed one in the first round that it can; several count as one.

    Attributes
    ----------
    rates, phases : (n,) r_i and u_i; see :mod:`aoi_fl.science.rates` and :mod:`aoi_fl.science.phases`
    jitter : J in [0, 1]
    seed : of the jitter
    shifts : the rest that clients had accrued by former rates
    number : of a single client; None: clients are numbered from 0

    >>> policy = SystematicPolicy.equal(5, 2)
    >>> [int((policy.count(t) > policy.count(t - 1)).sum()) for t in range(1, 11)]
    [2, 2, 2, 2, 2, 2, 2, 2, 2, 2]
    """

    coins = False

    rates: Floats
    phases: Floats
    jitter: float = 0.0
    seed: int = 0
    shifts: float | Floats = 0.0
    number: int | None = None

    def __post_init__(self) -> None:
        if len(self.rates) != len(self.phases):
            allowed = f"{len(self.rates)} numbers, as many as rates"
            raise ConfigError("phases", len(self.phases), allowed, "Give each client one of both.")
        self.strides  # noqa: B018  refuses values out of range

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

    @classmethod
    @lru_cache(maxsize=4096)  # a process with many clients uses each of them again
    def from_message(cls, terms: Terms, seed: int, number: int) -> Self:
        """Return the rule of one client with these terms; without a phase in them it draws its own."""
        phase = draws.uniform(seed, 0, PHASE, number) if terms.phase is None else terms.phase
        rates, phases = np.array([terms.rate or 0.0]), np.array([phase])
        return cls(rates, phases, terms.jitter or 0.0, seed, terms.shift or 0.0, number)

    @cached_property
    def strides(self) -> Strides:
        """The clients' strides."""
        return Strides(self.rates, self.phases, self.jitter, self.shifts)

    def count(self, round_: int | Ints) -> Ints:
        """Return (n,) the numbers of the last participations due by a round.

        >>> client = SystematicPolicy(np.array([0.4]), np.array([0.5]))
        >>> [int(client.count(t)[0]) for t in range(1, 8)]
        [0, 1, 1, 2, 2, 2, 3]
        """
        begun = self.strides.begun(round_)
        return begun - (self._due(self.strides.last_start(round_)) > round_) if self.jitter else begun

    def round_of(self, counts: Ints) -> Ints:
        """Return (n,) the rounds in which participations of these numbers are due."""
        return self._due(self.strides.start_of(counts))

    def first_age(self, round_: int, u: Floats) -> Ints:
        """Return (n,) the ages, at the start of a round, of clients that have always been available."""
        return round_ - 1 - self.round_of(self.count(round_ - 1))

    def counts(self, last: Ints) -> Ints:
        """Return (n,) the numbers of the last participations due by these rounds."""
        return self.count(last)

    def participates(self, clocks: Clocks, round_: int, u: Floats) -> Mask:
        """Return (n,) which clients have a participation due that they have not taken yet."""
        return self.count(round_) > self._counts(clocks)

    def next_round(self, clocks: Clocks, round_: int, u: Floats) -> Ints:
        """Return (n,) the rounds, this one or later, of the next participations."""
        return np.maximum(round_, self.round_of(self._counts(clocks) + 1))

    def advance(self, clocks: Clocks, round_: int, took_part: Mask, forced: Mask | None = None) -> Clocks:
        """Return the clocks after a round; a forced participation makes up for none."""
        counts, step = self._counts(clocks), 1 if forced is None else np.where(forced, 0, 1)
        taken = np.maximum(self.count(round_), counts + step)
        return Clocks(np.where(took_part, round_, clocks.last), np.where(took_part, taken, counts))

    def long_run_rates(self) -> Floats:
        """Return (n,) participations a round."""
        return self.rates

    def law(self) -> IntervalLaw:
        """Return the law of X, of all clients' intervals together."""
        return MixedLaw(self.rates, lambda rate: StrideLaw(rate, self.jitter))

    def _counts(self, clocks: Clocks) -> Ints:
        return self.count(clocks.last) if clocks.counts is None else clocks.counts

    def _due(self, starts: Ints) -> Ints:
        """Return (n,) the rounds of the participations of strides that began in these rounds."""
        if not self.jitter:
            return self.strides.due(starts, 0.0)
        drawn, delays = np.maximum(starts, 0), np.zeros(len(starts))  # a stride from before round 1 draws in round 0
        for round_ in np.unique(drawn).tolist():
            delays = np.where(drawn == round_, self._uniforms(round_), delays)
        return self.strides.due(starts, delays)

    def _uniforms(self, round_: int) -> Floats:
        if self.number is None:
            return draws.uniforms(self.seed, round_, JITTER, len(self.rates))
        return np.array([draws.uniform(self.seed, round_, JITTER, self.number)])
