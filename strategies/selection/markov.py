"""The Markov policy: each client takes part with a probability that depends on its age (Javani & Wang 2024, 2025)."""

from dataclasses import replace
from typing import Any

import numpy as np

from aoi_fl import protocol
from aoi_fl.config.values import Compensate
from aoi_fl.protocol.log import logger
from aoi_fl.protocol.records import State
from aoi_fl.science.dropout import DropoutEstimate, achieved, largest_dropout
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.rates import largest_rate
from aoi_fl.science.types import Floats
from aoi_fl.strategies.policy import RoundOutcome, RoundView
from aoi_fl.strategies.selection.absence import Absence, make_absence
from aoi_fl.strategies.selection.rates import Rates, Shares
from aoi_fl.strategies.selection.rule import SAME_MEET, RulePolicy
from aoi_fl.strategies.strategy import AgeAwareStrategy


class MarkovRulePolicy(RulePolicy):
    """Clients that decide by tables, which make up for lost work or for absence if wanted.

    Parameters
    ----------
    policy : n, k and the table
    coordination : as in :class:`RulePolicy`
    rates, adaptive_dropout : as in :class:`MarkovParticipation`
    availability : learns how often each client is available; None: it is ignored
    """

    rule: MarkovPolicy

    def __init__(
        self,
        policy: MarkovPolicy,
        coordination: str,
        rates: Rates,
        availability: Absence | None,
        *,
        adaptive_dropout: bool,
    ) -> None:
        n, k = policy.clients, policy.per_round
        shares = Shares(rates, n, k, most=largest_rate(policy.dropout), leaving=availability is None)
        own = rates != "equal" or availability is not None  # each client has a table of its own
        rule = replace(policy, rates=np.zeros(0) if own else None, presence=availability)
        super().__init__(rule, n, k, coordination, shares if own else None)
        if not own and not adaptive_dropout:
            alike = n > k > 1 and set(policy.probabilities) <= {0, 1}  # no coin is left
            self.traits = replace(self.traits, law=policy, warning=SAME_MEET if alike else "")
        self._dropout = DropoutEstimate(float(k), policy.dropout * k) if adaptive_dropout else None
        self._warned = False
        self._adapt()

    def issue(self, view: RoundView) -> None:
        """Issue the round's tables."""
        super().issue(view)
        if self._dropout is not None:
            self._warn_beyond(self._dropout.value, view)

    def observe(self, outcome: RoundOutcome) -> None:
        """Learn which clients were available, and how many willing clients were lost."""
        super().observe(outcome)
        if self._dropout is not None:
            self._dropout = self._after(self._dropout, outcome)
            self._adapt()

    def targets(self, clients: int) -> Floats:
        """Return (n,) the clients' own rates, where they have any."""
        rates = self.rule.rates
        return super().targets(clients) if rates is None or not len(rates) else rates[:clients]

    def achieved(self, clients: int) -> Floats:
        """Return (n,) the clients' rates; where more is lost than tables make up for, what is left of them."""
        rates = super().achieved(clients)
        return rates if self._dropout is None else achieved(rates, self._dropout.value)

    def ledger(self) -> dict[str, float]:
        """Return the dropout that the round's tables make up for."""
        return {} if self._dropout is None else {"dropout": self.rule.dropout}

    def describe(self) -> dict[str, Any]:
        """Return the policy's kind, n, k, table, rates and coordination."""
        rates, rule = self.rule.rates, "equal" if self.shares is None else self.shares.rule
        return {
            "kind": f"markov-{self.rule.kind}",
            **super().describe(),
            "probabilities": list(self.rule.probabilities),
            "rates": rule if rates is None or not len(rates) or rule == "equal" else rates.tolist(),
            "adaptive_dropout": self._dropout is not None,
        }

    def state_dict(self) -> State:
        """Return the estimate of d: two float64, bit for bit as integers."""
        if self._dropout is None:
            return super().state_dict()
        estimate = np.array([self._dropout.willing, self._dropout.lost]).view(np.int64)
        return {**super().state_dict(), "dropout": estimate}

    def load_state_dict(self, state: State) -> None:
        """Restore it."""
        super().load_state_dict(state)
        if self._dropout is not None:
            willing, lost = state["dropout"].view(np.float64).tolist()
            self._dropout = DropoutEstimate(willing, lost)
            self._adapt()

    def _adapt(self) -> None:
        """Make the tables for the dropout estimated up to now; they are sent from the next message on."""
        if self._dropout is not None:
            self.rule = self.rule.with_dropout(self._dropout.value)

    def _after(self, estimate: DropoutEstimate, outcome: RoundOutcome) -> DropoutEstimate:
        """Count the round's willing clients and the lost among them; a forced client is no evidence.

        Lost is a client that said yes, or announced this round, and sent no update that counts, though the server
        waited. A client that did not answer at all was willing as often as those that answered. Clients that are not
        connected when the round begins are not asked and don't count.
        """
        counted = [one for one in outcome.clients if not one.forced]
        if not self.coordination.undecided and (outcome.plan.forced or not len(outcome.plan.clients)):
            counted = [one for one in counted if one.step == "ask"]
        results = [one.result for one in counted]
        silent = self.coordination.silent(replace(outcome, clients=counted))
        failed = sum(result in ("late", "failed", "refused") for result in results) - silent
        trained, surplus = results.count("trained"), results.count("surplus")
        yes = trained + failed + surplus
        share = yes / (yes + outcome.declined) if yes + outcome.declined else self.per_round / self.clients
        lost = failed + silent * share
        return estimate.after(trained + lost, lost)

    def _warn_beyond(self, estimate: float, view: RoundView) -> None:
        """Warn where no table makes up for so many lost clients, once until it is less."""
        rates = self.targets(len(view.known))
        most = 1 - rates.max(initial=0.0) if self.shares is not None else largest_dropout(self.clients, self.per_round)
        if estimate > most and not self._warned:
            logger.warning(
                "Round %d: %.1f %% of the willing clients are lost, and tables make up for %.1f %% at most: fewer than "
                "clients-per-round will count. Lower it, or find out why updates are lost.",
                view.round,
                100 * estimate,
                100 * most,
            )
        self._warned = estimate > most


class MarkovParticipation(AgeAwareStrategy):
    """Clients take part by the Markov policy, with equal weights 1/|S| (Javani & Wang 2025, Policy 3).

    Parameters
    ----------
    policy : the policy; :meth:`optimal` and :meth:`increasing` make it from n, k and m
    rates : "equal", "size", or each client's own rate r_i by number or name, Σ r_i = k; with rates of its own,
        each client gets the optimal table for its mean wait 1/r_i, as long as that needs
    compensate : "none", "dropout" or "availability". By "dropout" the probability d that a willing client's work is
        lost is estimated each round, and clients receive the optimal table for that d
        (:class:`aoi_fl.science.dropout.DropoutEstimate`). By "availability" each client's availability is learned, and
        each receives the table by which it achieves its rate (:mod:`aoi_fl.science.absence`)
    coordination : "poll", "broadcast" or "reserve"; clients that reserve rounds sleep until the one that they have
        reserved, by what rounds take or the option ``round_seconds``
    """

    def __init__(
        self,
        policy: MarkovPolicy,
        *,
        rates: Rates = "equal",
        compensate: Compensate = "none",
        coordination: str = protocol.POLL,
        **settings: Any,
    ) -> None:
        for key, given, usual in (("compensate", compensate, "none"), ("rates", rates, "equal")):
            if policy.kind != "optimal" and given != usual:
                allowed = f"left out: it needs the optimal table, and the policy is {policy.kind!r}"
                raise ConfigError(key, given, allowed, "Use markov-optimal, or leave it out.")
        rule = MarkovRulePolicy(
            policy, coordination, rates, make_absence(compensate), adaptive_dropout=compensate == "dropout"
        )
        super().__init__(rule, **settings)

    @classmethod
    def optimal(
        cls, clients: int, per_round: int, max_age: int | None = None, **settings: Any
    ) -> "MarkovParticipation":
        """Return the strategy with the least variance of the load metric X; a smaller ``max_age`` is warned of."""
        table = MarkovPolicy.optimal(clients, per_round, max_age)
        if settings.get("rates", "equal") == "equal" and table.excess:
            logger.warning("%s", table.excess)
        return cls(table, **settings)

    @classmethod
    def increasing(
        cls, clients: int, per_round: int, max_age: int | None = None, exponent: float = 1.0, **settings: Any
    ) -> "MarkovParticipation":
        """Return the strategy whose probabilities grow with age without being optimal."""
        return cls(MarkovPolicy.increasing(clients, per_round, max_age, exponent), **settings)
