"""Systematic participation as the server issues it: the terms of n clients, and their learned availability.

The rule is reissued when rates change; a client keeps what it has accrued. With a
:class:`aoi_fl.science.presence.Presence` it learns each client's availability, and makes up for it.
"""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from aoi_fl.science.absence import EVERY, achievable, told_rates
from aoi_fl.science.names import PhaseRule
from aoi_fl.science.phases import make_phases, newcomer_phase
from aoi_fl.science.presence import Presence
from aoi_fl.science.rates import check_rates
from aoi_fl.science.rule import Terms
from aoi_fl.science.systematic import SystematicPolicy
from aoi_fl.science.types import Floats, Mask

_MOVED = 0.05  # least relative change of a rate for a new message, which disturbs a client's stride


def _unknown() -> Floats:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class SystematicRule(SystematicPolicy):
    """Clients take part systematically; their terms are unknown before the first :meth:`reissue`.

    Attributes
    ----------
    rates, phases, shifts : (n,) each client's terms
    phase_rule : "spread", dealt out by the server, or "random", each client's own draw
    presence : the clients' known availability, for which rates make up; None: all are always available
    targets : (n,) the rates that clients are to achieve
    """

    rates: Floats = field(default_factory=_unknown)
    phases: Floats = field(default_factory=_unknown)
    shifts: Floats = field(default_factory=_unknown)
    phase_rule: PhaseRule = "spread"
    presence: Presence | None = None
    targets: Floats = field(default_factory=_unknown)

    def __post_init__(self) -> None:
        """Leave the strides to the first decision: a server makes none."""

    @classmethod
    def learning(cls, rates: Floats, seed: int = 0) -> Self:
        """Return the rule of these target rates that makes up for availability; raises ConfigError for a bad rate."""
        check_rates(rates)
        n = len(rates)
        rule = cls(seed=seed, presence=Presence().reach(n))
        return rule.reissue(rates, 0, np.ones(n, np.bool_))

    def observe(self, available: Mask, round_: int) -> Self:
        """Learn from (n,) the clients that were available in a round; now and then clients get other rates."""
        if self.presence is not None:
            self.presence.note(available)
        return self.retold(round_)

    def long_run_rates(self) -> Floats:
        """Return (n,) how often each client takes part in a round, in the long run."""
        return self.targets if self.presence is None else achievable(self.targets, self.presence.share)

    def to_message(self, client: int | None) -> Terms | None:
        """Return a client's terms; with None nothing, since they differ from client to client."""
        if client is None:
            return None
        phase = float(self.phases[client]) if self.phase_rule == "spread" else None
        shift = float(self.shifts[client]) or None
        return Terms((), float(self.rates[client]), phase, self.jitter or None, shift)

    def reissue(self, rates: Floats, round_: int, here: Mask) -> Self:
        """Return the rule for other rates after a round, ``rates`` (m,) with m ≥ n.

        A client keeps what it has accrued by the last round, ``round_``, and its count of it. A newcomer gets the
        widest gap between the phases of the clients that are ``here``, (m,).
        """
        if not len(self.rates):
            phases = make_phases(self.phase_rule, rates, self.seed)
            return replace(self, targets=rates, rates=rates, phases=phases, shifts=np.zeros(len(rates)))
        return replace(self._telling(self._told(rates), round_, here), targets=rates)

    def retold(self, round_: int) -> Self:
        """Return the rule after a round in which availability was learned; now and then clients get other rates."""
        if self.presence is None or round_ % EVERY:
            return self
        wanted = self._told(self.targets)
        moved = np.abs(wanted - self.rates) > _MOVED * self.rates
        return self._telling(np.where(moved, wanted, self.rates), round_, np.ones(len(moved), np.bool_))

    def _told(self, targets: Floats) -> Floats:
        """Return the rates to send to clients for these targets."""
        return targets if self.presence is None else told_rates(targets, self.presence.reach(len(targets)))

    def _telling(self, rates: Floats, round_: int, here: Mask) -> Self:
        known = len(self.rates)
        shifts, phases = self.shifts + round_ * (self.rates - rates[:known]), self.phases
        for _ in range(known, len(rates)):
            phase = newcomer_phase(((phases + shifts) % 1)[here[: len(phases)]])
            phases, shifts = np.append(phases, phase), np.append(shifts, 0.0)
        return replace(self, rates=rates, phases=phases, shifts=shifts)
