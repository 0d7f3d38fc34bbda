"""Systematic participation: a rate and a phase tell a client every round it takes part in, without coin or poll."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray

from aoi_fl.science.absence import EVERY, retold, told_rates
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import AbsenceRule, PhaseRule
from aoi_fl.science.phases import make_phases, newcomer_phase
from aoi_fl.science.strides import check_jitter
from aoi_fl.strategies.records import Memory
from aoi_fl.strategies.selection.decentralised import DecentralisedParticipation
from aoi_fl.strategies.selection.rates import OwnRates, Rates
from aoi_fl.wire import protocol
from aoi_fl.wire.protocol import Ask


class SystematicParticipation(DecentralisedParticipation):
    """Clients take part systematically (:mod:`aoi_fl.science.systematic`), by default with equal weights.

    Parameters
    ----------
    clients, per_round : n and k
    rates : "equal", "size", or each client's own rate r_i by number or name, Σ r_i = k
    phases : "spread", dealt out by the roll call so that (with equal rates) exactly k take part in a round; or
        "random", each client's own draw, of which the server knows nothing
    jitter : J in [0, 1], the largest share of a stride by which a participation is put off, so that neighbours in phase
        do not always train together
    absence : "ignored"; or "learned": how often each client is there, and how soon it comes back, is learned, and each
        is sent the rate by which it achieves its own (:func:`aoi_fl.science.absence.stride_rates`). How much of the
        rates is out of reach is said
    settings : wire, and those of the base; as the next round is known for ever, "reserve" is the wire to take

    Raises
    ------
    ConfigError
        Phases, rates, jitter or absence out of range; absence learned where the server does not know the phases, or
        with jitter, for which what a client achieves is not worked out.
    """

    def __init__(
        self,
        clients: int,
        per_round: int,
        *,
        rates: Rates = "equal",
        phases: PhaseRule = "spread",
        jitter: float = 0.0,
        absence: AbsenceRule = "ignored",
        wire: str = protocol.RESERVE,
        **settings: Any,
    ) -> None:
        check_jitter(jitter)
        if phases not in get_args(PhaseRule):
            raise ConfigError(f"phases is {phases!r}: choose one of {', '.join(get_args(PhaseRule))}.")
        if not 1 <= per_round <= clients:
            raise ConfigError(
                f"clients-per-round is {per_round}: give a whole number from 1 to {clients}, the clients."
            )
        if absence == "learned" and (jitter or phases == "random"):
            raise ConfigError(
                f"absence is 'learned', but jitter is {jitter:g} and phases is {phases!r}: set jitter to 0 and phases "
                "to 'spread', or absence to 'ignored'."
            )
        super().__init__(clients, per_round, wire=wire, absence=absence, **settings)
        self._asked = np.zeros(0)  # rates by which clients achieve their own
        self._rule, self._phase_rule, self.jitter = rates, phases, jitter
        self._shares = OwnRates(rates, clients, per_round, leaving=self._absence is None)
        self._rates = np.zeros(0)
        self._phases = np.zeros(0)
        self._shifts = np.zeros(0)  # of those whose rates have changed

    @classmethod
    def by_keys(cls, keys: Mapping[str, Any], **settings: Any) -> Self:
        """Return the strategy for a run's keys."""
        terms = {key: keys[key] for key in ("rates", "phases", "jitter", "absence", "wire")}
        n, k = keys["num-clients"], keys["clients-per-round"]
        return cls(n, k, round_seconds=keys["round-seconds"], **terms, **settings)

    def parameters(self) -> dict[str, Any]:
        """Return n, k, rates, phases, jitter and wire."""
        return (
            {"kind": "systematic"}
            | super().parameters()
            | {
                "rates": self._rates.tolist() if len(self._rates) else self._rule,
                "phases": self._phase_rule,
                "jitter": self.jitter,
            }
        )

    def targets(self) -> NDArray[np.float64]:
        """Return (n,) the clients' own rates."""
        return self._rates[: len(self.roster)]

    def memory(self) -> dict[str, NDArray[Any]]:
        """Return what the base does, and rates and phases: newcomers and leavers have changed them."""
        found = {
            **super().memory(), "rates": self._rates, "phases": self._phases, "shifts": self._shifts,
            "members": self._shares.members, "known": self._shares.known,
        }  # fmt: skip
        return found if self._absence is None else {**found, "asked": self._asked}

    def recall(self, memory: Memory) -> None:
        """Take back what :meth:`memory` returned."""
        super().recall(memory)
        self._rates, self._phases = memory["rates"].copy(), memory["phases"].copy()
        self._asked = memory["asked" if self._absence is not None else "rates"].copy()
        self._shifts = memory.get("shifts", np.zeros(len(self._rates))).copy()
        everybody = np.ones(len(self._rates), np.bool_)
        self._shares.members = memory.get("members", everybody).copy()
        self._shares.known = memory.get("known", everybody).copy()

    def issue(self, ask: Ask) -> None:
        """Give newcomers rate and phase."""
        if (rates := self._shares.found(self.roster, ask.round)) is not None:
            self._take_in(rates, ask.round)

    def terms(self, ask: Ask, client: int) -> Ask:
        """Add the client's rate and phase; a phase drawn by itself it knows alone."""
        phase = float(self._phases[client]) if self._phase_rule == "spread" else None
        rate, shift = float(self._asked[client]), float(self._shifts[client]) or None
        return replace(ask, rate=rate, phase=phase, jitter=self.jitter or None, shift=shift)

    def _take_in(self, rates: NDArray[np.float64], round_: int) -> None:
        """Give everybody its rate; who was there keeps what it has accrued, a newcomer gets the place of who left."""
        if not len(self._rates):
            self._asked, self._phases = rates, make_phases(self._phase_rule, rates, self.options.seed)
            self._shifts = np.zeros(len(rates))
        else:
            reached = self._reached(rates)
            self._ask_for(reached[: len(self._asked)], round_ - 1)
            for new in reached[len(self._asked) :].tolist():
                there = self.roster.available[: len(self._phases)] if self._absence is None else slice(None)
                phase = newcomer_phase(((self._phases + self._shifts) % 1)[there])
                self._asked = np.append(self._asked, new)
                self._phases, self._shifts = np.append(self._phases, phase), np.append(self._shifts, 0.0)
        self._rates = rates

    def observe(self, unanswered: int) -> None:
        """Learn who was there, and ask for other rates now and then."""
        super().observe(unanswered)
        round_ = self._record.round
        if self._absence is not None and round_ % EVERY == 0:
            wanted = self._reached(self._rates)
            self._ask_for(np.where(retold(self._asked, wanted), wanted, self._asked), round_)

    def _reached(self, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rates to ask for, so that clients achieve these."""
        if self._absence is None:
            return rates
        presence = self._absence.presence.reach(len(rates))
        return told_rates(rates, presence)

    def _ask_for(self, rates: NDArray[np.float64], round_: int) -> None:
        """Have clients go on at other rates after a round, keeping what they have accrued and their count of it."""
        self._shifts += round_ * (self._asked - rates)
        self._asked = rates
