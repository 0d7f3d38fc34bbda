"""Rules by which clients decide whether they take part, as the server issues them.

A rule knows the terms of n clients. It is reissued when their rates change: who was there keeps what it has accrued.
"""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from aoi_fl.science.absence import absent_table
from aoi_fl.science.dropout import reissued
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.markov_rates import RatedMarkovPolicy, own_table
from aoi_fl.science.names import PhaseRule
from aoi_fl.science.phases import make_phases, newcomer_phase
from aoi_fl.science.presence import Presence
from aoi_fl.science.rates import Floats
from aoi_fl.science.seen import Mask
from aoi_fl.science.strides import check_jitter
from aoi_fl.science.tables import Probabilities


@dataclass(frozen=True)
class Terms:
    """What a client needs to decide.

    Attributes
    ----------
    table : p_0 … p_m, the probabilities to take part by age; empty under a rate
    rate : participations a round, for systematic participation; None: a table decides
    phase : u in [0, 1); None: the client draws its own
    jitter : J in [0, 1]; None: 0
    shift : what a former rate has left over; None: 0
    """

    table: Probabilities = ()
    rate: float | None = None
    phase: float | None = None
    jitter: float | None = None
    shift: float | None = None


@dataclass(frozen=True)
class MarkovRule:
    """Clients take part with a probability that depends on their age.

    Attributes
    ----------
    policy : n, k, and the table that all clients share
    own : whether each client has a table of its own, for its rate
    rates : (n,) those rates; None: not known yet
    presence : how often each client is available, which its own table makes up for; None: always
    dropout : d, which own tables make up for
    declared : the d that rates must allow for
    """

    policy: MarkovPolicy
    own: bool = False
    rates: Floats | None = None
    presence: Presence | None = None
    dropout: float = 0.0
    declared: float = 0.0

    def to_message(self, client: int | None) -> Terms | None:
        """Return a client's terms; with None those of all clients, or None where they differ.

        Raises
        ------
        ConfigError
            The client's table would have more than a million ages.
        """
        if not self.own:
            return Terms(self.policy.probabilities)
        if client is None:
            return None
        if self.rates is None:
            return Terms()
        rate = float(self.rates[client])
        if self.presence is None:
            return Terms(own_table(rate, None, self.dropout))
        return Terms(absent_table(rate, *self.presence.reach(len(self.rates)).of(client)))

    def reissue(self, rates: Floats, round_: int, here: Mask) -> Self:
        """Return the rule for other rates of each client's own.

        Raises
        ------
        ConfigError
            A rate is out of range, or above what the declared dropout leaves.
        """
        RatedMarkovPolicy(rates, dropout=self.declared)
        return replace(self, rates=rates)

    def with_dropout(self, dropout: float) -> Self:
        """Return the rule that makes up for another probability that a willing client's work is lost."""
        return replace(self, policy=reissued(self.policy, dropout), dropout=dropout)


@dataclass(frozen=True, eq=False)
class SystematicRule:
    """Clients take part systematically (:mod:`aoi_fl.science.systematic`): a rate and a phase give every round.

    Attributes
    ----------
    clients, per_round : n and k
    phase_rule : "spread", dealt out by the server, or "random", each client's own draw
    jitter : J in [0, 1], the largest share of a stride by which a participation is put off
    seed : of the phases
    rates, phases, shifts : (n,) what each client is told; empty before the first :meth:`reissue`
    """

    clients: int
    per_round: int
    phase_rule: PhaseRule = "spread"
    jitter: float = 0.0
    seed: int = 0
    rates: Floats = field(default_factory=lambda: np.zeros(0))
    phases: Floats = field(default_factory=lambda: np.zeros(0))
    shifts: Floats = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        check_jitter(self.jitter)

    def to_message(self, client: int | None) -> Terms | None:
        """Return a client's terms; with None nothing, since they differ from client to client."""
        if client is None:
            return None
        phase = float(self.phases[client]) if self.phase_rule == "spread" else None
        shift = float(self.shifts[client]) or None
        return Terms((), float(self.rates[client]), phase, self.jitter or None, shift)

    def reissue(self, rates: Floats, round_: int, here: Mask) -> Self:
        """Return the rule for other rates after a round.

        A client keeps what it has accrued, and its count of it. A newcomer gets the widest gap between the phases of
        the clients that are here.

        Parameters
        ----------
        rates : (m,) what clients are to be told, m ≥ n
        round_ : the last round by the former rates
        here : (m,) the clients that newcomers keep apart from
        """
        if not len(self.rates):
            phases = make_phases(self.phase_rule, rates, self.seed)
            return replace(self, rates=rates, phases=phases, shifts=np.zeros(len(rates)))
        known = len(self.rates)
        shifts, phases = self.shifts + round_ * (self.rates - rates[:known]), self.phases
        for _ in range(known, len(rates)):
            phase = newcomer_phase(((phases + shifts) % 1)[here[: len(phases)]])
            phases, shifts = np.append(phases, phase), np.append(shifts, 0.0)
        return replace(self, rates=rates, phases=phases, shifts=shifts)
