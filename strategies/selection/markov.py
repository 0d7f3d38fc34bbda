"""The Markov policy: each client takes part with a probability that depends on its age (Javani & Wang 2024, 2025)."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.science.absence import absent_table
from aoi_fl.science.dropout import DropoutEstimate, achieved, largest_dropout, reissued
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.markov_rates import RatedMarkovPolicy, largest_rate, own_table
from aoi_fl.science.names import AbsenceRule
from aoi_fl.strategies.plan import Plan
from aoi_fl.strategies.records import Memory
from aoi_fl.strategies.selection.decentralised import DecentralisedParticipation
from aoi_fl.strategies.selection.rates import OwnRates, Rates
from aoi_fl.wire.protocol import Ask

logger = logging.getLogger("flwr")


class MarkovParticipation(DecentralisedParticipation):
    """Clients take part by the Markov policy, with equal weights 1/|S| (Javani & Wang 2025, Policy 3).

    Parameters
    ----------
    policy : the policy; :meth:`optimal` and :meth:`increasing` make it from n, k and m
    rates : "equal", "size", or each client's own rate r_i by number or name, Σ r_i = k; with rates of its own,
        each client gets the optimal table for its mean wait 1/r_i, as long as that needs
    adaptive_dropout : estimate, round after round, the probability d that a willing client's work is lost, and send
        the optimal table for that d, so that participations that count stay n/k rounds apart in the mean. That holds
        where a client makes no update, being out of reach or failing: of one that is made and then lost, late or
        refused, the client's age has begun anew, and only a part is made up for. A change reaches the clients with the
        next message to them: in reserve mode a reservation that is out stands, and the wait after it is drawn from the
        new table. Nobody can achieve more than 1−d, which is said where a rate is above it. See
        :class:`aoi_fl.science.dropout.DropoutEstimate`
    absence : "ignored"; or "learned", for each client by itself: how often it is there, and how soon it comes back, is
        learned, and each is sent the table by which it achieves its rate (:mod:`aoi_fl.science.absence`), as large as
        that needs. How much of the rates is out of reach is said. Work that is lost by who is there is made up for in
        part only (:class:`aoi_fl.strategies.selection.absence.Absence`)

    Attributes
    ----------
    policy : the policy of the round at hand
    """

    def __init__(
        self,
        policy: MarkovPolicy,
        *,
        rates: Rates = "equal",
        adaptive_dropout: bool = False,
        absence: AbsenceRule = "ignored",
        **settings: Any,
    ) -> None:
        issued = {"adaptive-dropout": adaptive_dropout, "absence": absence != "ignored", "rates": rates != "equal"}
        if policy.kind != "optimal" and any(issued.values()):
            key = next(key for key, anew in issued.items() if anew)
            raise ConfigError(
                f"{key} issues the optimal table anew, but the policy is {policy.kind!r}: use markov-optimal, or leave "
                f"{key} alone."
            )
        if adaptive_dropout and absence == "learned":
            raise ConfigError(
                "absence 'learned' issues tables for who is away, adaptive-dropout for who is lost: leave one out."
            )
        super().__init__(policy.clients, policy.per_round, absence=absence, **settings)
        self.policy = policy
        self._rule = rates
        self._shares = OwnRates(
            rates, self.clients, self.per_round, most=largest_rate(policy.dropout), leaving=self._absence is None
        )
        self._own = rates != "equal" or self._absence is not None  # each client has a table of its own
        self._declared = policy.dropout  # what rates must allow for; more that is estimated, as far as they can
        self._rated: RatedMarkovPolicy | None = None
        self._adaptive = adaptive_dropout
        self._dropout = DropoutEstimate(float(policy.per_round), policy.dropout * policy.per_round)
        self._counted = 0  # the last round of which it was
        self._warned = False

    @classmethod
    def optimal(cls, clients: int, per_round: int, max_age: int = 10, **settings: Any) -> "MarkovParticipation":
        """Return the strategy with the least variance of the load metric X."""
        return cls(MarkovPolicy.optimal(clients, per_round, max_age), **settings)

    @classmethod
    def increasing(
        cls, clients: int, per_round: int, max_age: int = 10, exponent: float = 1.0, **settings: Any
    ) -> "MarkovParticipation":
        """Return the strategy whose probabilities grow with age without being optimal."""
        return cls(MarkovPolicy.increasing(clients, per_round, max_age, exponent), **settings)

    @classmethod
    def optimal_by_keys(cls, keys: Mapping[str, Any], **settings: Any) -> "MarkovParticipation":
        """Return the strategy for a run's keys."""
        rates, adaptive, wire = keys["rates"], keys["adaptive-dropout"], keys["wire"]
        return cls.optimal(
            *_sizes(keys),
            rates=rates,
            adaptive_dropout=adaptive,
            absence=keys["absence"],
            wire=wire,
            round_seconds=keys["round-seconds"],
            **settings,
        )

    @classmethod
    def increasing_by_keys(cls, keys: Mapping[str, Any], **settings: Any) -> "MarkovParticipation":
        """Return the strategy for a run's keys."""
        return cls.increasing(
            *_sizes(keys), keys["exponent"], wire=keys["wire"], round_seconds=keys["round-seconds"], **settings
        )

    def parameters(self) -> dict[str, Any]:
        """Return the policy's kind, n, k, table, rates and wire."""
        return (
            {"kind": f"markov-{self.policy.kind}"}
            | super().parameters()
            | {
                "probabilities": list(self.policy.probabilities),
                "rates": self._rule if self._rated is None or self._rule == "equal" else self._rated.rates.tolist(),
                "adaptive_dropout": self._adaptive,
            }
        )

    def targets(self) -> NDArray[np.float64]:
        """Return (n,) the clients' own rates, where they have any."""
        return super().targets() if self._rated is None else self._rated.rates[: len(self.roster)]

    def rates(self) -> NDArray[np.float64]:
        """Return (n,) the clients' rates; where more is lost than tables make up for, what is left of them."""
        return achieved(super().rates(), self._dropout.value) if self._adaptive else super().rates()

    def question(self, ask: Ask) -> Ask:
        """Add the table, where all have the same: the one for the dropout estimated up to now, as far as there is one.

        It does not change between the end of a round's training and the next round.
        """
        return replace(super().question(ask), table=() if self._own else self._issued().probabilities)

    def greeting(self, ask: Ask) -> Ask:
        """Ask newcomers at once, where all have the same table."""
        return self.question(ask) if self._wire.asks and not self._own else ask

    def terms(self, ask: Ask, client: int) -> Ask:
        """Add the client's own table, where it has one."""
        if self._rated is None:
            return ask
        rate = float(self._rated.rates[client])
        if self._absence is None:
            dropout = self._dropout.value if self._adaptive else self._declared
            return replace(ask, table=own_table(rate, None, dropout))
        presence = self._absence.presence.reach(len(self._rated.rates))
        return replace(ask, table=absent_table(rate, *presence.of(client)))

    def _issued(self) -> MarkovPolicy:
        """Return the policy for the dropout estimated up to now, as far as there is one."""
        return reissued(self.policy, self._dropout.value) if self._adaptive else self.policy

    def memory(self) -> dict[str, NDArray[Any]]:
        """Return what the base does, and the estimate of d: two float64, bit for bit as integers."""
        found = super().memory()
        if self._adaptive:
            found["dropout"] = np.array([self._dropout.willing, self._dropout.lost]).view(np.int64)
        return found

    def recall(self, memory: Memory) -> None:
        """Take back what :meth:`memory` returned."""
        super().recall(memory)
        if self._adaptive:
            willing, lost = memory["dropout"].view(np.float64).tolist()
            self._dropout = DropoutEstimate(willing, lost)

    def issue(self, ask: Ask) -> None:
        """Issue the round's tables."""
        if self._own and (rates := self._shares.found(self.roster, ask.round)) is not None:
            self._rated = RatedMarkovPolicy(rates, dropout=self._declared)
        if self._adaptive:
            self._adapt()

    def rescue(self, ask: Ask) -> Plan | None:
        """Force one client; who was silent when asked is counted before."""
        if self._adaptive and self._wire.asks:  # else the replies have been counted already
            self._count_lost(self._record.dropped)
        return super().rescue(ask)

    def observe(self, unanswered: int) -> None:
        """Learn who was there, and how many willing clients were lost."""
        super().observe(unanswered)
        if self._adaptive and not self._plan.ask.forced:
            self._count_lost(unanswered)

    def _count_lost(self, unanswered: int) -> None:
        """Count the round's willing clients and the lost among them, once; a forced client is no evidence.

        Lost is who said yes, or announced this round, and sent no update that counts, though it was waited for. Whoever
        did not answer at all was willing as often as those who answered. Clients that are not connected when the round
        begins are not asked and don't count.
        """
        record = self._record
        if record.round == self._counted:
            return
        self._counted = record.round
        silent = self._wire.silent(record, unanswered)
        failed = record.dropped - silent - len(record.surplus)
        yes = record.trained + failed + len(record.surplus)
        share = yes / (yes + record.declined) if yes + record.declined else self.policy.per_round / self.policy.clients
        lost = failed + silent * share
        self._dropout = self._dropout.after(record.trained + lost, lost)

    def _adapt(self) -> None:
        """Issue the tables for the dropout estimated up to now, and say where there are none, once until it is less."""
        estimate = self._dropout.value
        self.policy = reissued(self.policy, estimate)
        self._record.dropout = estimate if self._own else self.policy.dropout
        beyond = self._beyond(estimate)
        if beyond and not self._warned:
            lost = 100 * estimate
            logger.warning("Round %d: %.1f %% of the willing clients are lost, %s", self._record.round, lost, beyond)
        self._warned = bool(beyond)

    def _beyond(self, estimate: float) -> str:
        """Say what no table can make up for where so many are lost; empty where tables make up for all."""
        k, n = self.policy.per_round, self.policy.clients
        if not self._own:
            most = largest_dropout(n, k)
            if estimate <= most:
                return ""
            return (
                f"but with clients-per-round {k} of {n} clients the table can make up for no more than "
                f"{100 * most:.1f} %: every client is asked to take part in each round, and fewer than "
                "clients-per-round will count. Lower it, or find out why updates are lost."
            )
        rates = self.targets()
        lacking = rates - achieved(rates, estimate)
        if not lacking.any():
            return ""
        return (
            f"and {np.count_nonzero(lacking)} clients are to take part more often than the {1 - estimate:.3g} that is "
            f"left to who always does, client {int(np.argmax(lacking))} by most: {lacking.sum():.3g} of "
            f"{rates.sum():.3g} participations a round are out of reach. Give such clients smaller rates, lower "
            "clients-per-round, or find out why updates are lost."
        )


def _sizes(keys: Mapping[str, Any]) -> tuple[int, int, int]:
    return keys["num-clients"], keys["clients-per-round"], keys["max-age"]
