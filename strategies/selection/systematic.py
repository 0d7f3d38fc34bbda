"""Systematic participation: a rate and a phase fix all rounds of a client, without coin or poll."""

from dataclasses import replace
from typing import Any, get_args

from aoi_fl import protocol
from aoi_fl.config.rules import check, uncompensated
from aoi_fl.config.values import Compensate
from aoi_fl.protocol.records import State
from aoi_fl.science import systematic as science
from aoi_fl.science.errors import ConfigError, check_choice
from aoi_fl.science.interval_law import StrideLaw
from aoi_fl.science.names import PhaseRule
from aoi_fl.science.participation import SystematicRule
from aoi_fl.science.rule import IntervalLaw
from aoi_fl.science.strides import check_jitter
from aoi_fl.science.types import Floats
from aoi_fl.strategies.policy import RoundOutcome
from aoi_fl.strategies.selection.absence import make_absence
from aoi_fl.strategies.selection.rates import Rates, Shares
from aoi_fl.strategies.selection.rule import SAME_MEET, RulePolicy
from aoi_fl.strategies.selection.selector import seed_of
from aoi_fl.strategies.strategy import AgeAwareStrategy


class SystematicRulePolicy(RulePolicy):
    """Systematic clients; the present ones share the rates.

    Parameters
    ----------
    rule, clients, per_round, coordination : as in :class:`RulePolicy`
    rates : as in :class:`SystematicParticipation`
    """

    rule: SystematicRule
    shares: Shares

    def __init__(self, rule: SystematicRule, clients: int, per_round: int, coordination: str, rates: Rates) -> None:
        n, k = clients, per_round
        super().__init__(rule, n, k, coordination, Shares(rates, n, k, leaving=rule.presence is None))
        if rates == "equal" and rule.presence is None:
            law = science.SystematicPolicy.equal(n, k, rule.phase_rule, rule.jitter, rule.seed)
            alike = (rule.phase_rule, rule.jitter) == ("spread", 0.0) and n % k == 0 and n > k > 1
            self.traits = replace(self.traits, law=law, warning=f"{SAME_MEET} Or set a jitter." if alike else "")
        self._fastest = 0.0

    def interval_law(self) -> IntervalLaw:
        """Return the law at the largest rate up to now, as present clients share the rates."""
        self._fastest = float(self.rule.targets.max(initial=self._fastest))
        return StrideLaw(self._fastest, self.rule.jitter)

    def observe(self, outcome: RoundOutcome) -> None:
        """Learn which clients were available, and ask for other rates now and then."""
        super().observe(outcome)
        self.rule = self.rule.retold(outcome.view.round)

    def targets(self, clients: int) -> Floats:
        """Return (n,) the clients' own rates."""
        return self.rule.targets[:clients]

    def describe(self) -> dict[str, Any]:
        """Return n, k, rates, phases, jitter and coordination."""
        return {
            "kind": "systematic",
            **super().describe(),
            "rates": self.rule.targets.tolist() if len(self.rule.targets) else self.shares.rule,
            "phases": self.rule.phase_rule,
            "jitter": self.rule.jitter,
        }

    def state_dict(self) -> State:
        """Return rates and phases, which newcomers and leavers have changed."""
        state = {
            **super().state_dict(),
            "rates": self.rule.targets,
            "phases": self.rule.phases,
            "shifts": self.rule.shifts,
            "members": self.shares.members,
            "known": self.shares.known,
        }
        return state if self.availability is None else {**state, "asked": self.rule.rates}

    def load_state_dict(self, state: State) -> None:
        """Restore them."""
        super().load_state_dict(state)
        targets = state["rates"].copy()
        issued = state["asked" if self.availability is not None else "rates"].copy()
        self.rule = replace(
            self.rule,
            targets=targets,
            rates=issued,
            phases=state["phases"].copy(),
            shifts=state["shifts"].copy(),
        )
        self.shares.members, self.shares.known = state["members"].copy(), state["known"].copy()


class SystematicParticipation(AgeAwareStrategy):
    """Clients take part systematically (:mod:`aoi_fl.science.systematic`), by default with equal weights.

    Parameters
    ----------
    clients, per_round : n and k
    rates : "equal", "size", or each client's own rate r_i by number or name, Σ r_i = k
    phases : "spread", assigned in the roll call so that with equal rates exactly k take part in a round; or "random",
        each client's own draw, unknown to the server
    jitter : J in [0, 1], the largest delay of a participation as a share of a stride; neighbours in phase then do not
        always train together
    compensate : "none"; or "availability": the server learns each client's availability and sends the rate by which it
        achieves its own (:func:`aoi_fl.science.absence.stride_rates`)
    coordination : "poll", "broadcast" or "reserve"; "reserve" needs the fewest messages
    settings : those of the base class

    Raises
    ------
    ConfigError
        A value is out of range, or availability is learned with random phases or jitter.
    """

    def __init__(
        self,
        clients: int,
        per_round: int,
        *,
        rates: Rates = "equal",
        phases: PhaseRule = "spread",
        jitter: float = 0.0,
        compensate: Compensate = "none",
        coordination: str = protocol.RESERVE,
        **settings: Any,
    ) -> None:
        check_jitter(jitter)
        check_choice("phases", phases, get_args(PhaseRule))
        if not 1 <= per_round <= clients:
            allowed = f"a whole number from 1 to {clients}, the number of clients"
            raise ConfigError("clients-per-round", per_round, allowed, "Choose another number.")
        check(uncompensated(compensate, phases, jitter))
        rule = SystematicRule(
            jitter=jitter,
            seed=seed_of(settings),
            phase_rule=phases,
            presence=make_absence(compensate),
        )
        super().__init__(SystematicRulePolicy(rule, clients, per_round, coordination, rates), **settings)
