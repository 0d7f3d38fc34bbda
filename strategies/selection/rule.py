"""Decentralised policies: each client owns its age and decides for itself, by a rule of :mod:`aoi_fl.science`.

The server sends the terms and takes the answer. How decisions travel is the coordination's
(:mod:`aoi_fl.strategies.coordination`).
"""

from dataclasses import replace
from typing import Any, cast

import numpy as np

from aoi_fl import protocol
from aoi_fl.protocol import ParticipationRequest
from aoi_fl.protocol.log import logger
from aoi_fl.protocol.records import State
from aoi_fl.science import draws
from aoi_fl.science.rule import IntervalLaw
from aoi_fl.science.types import Floats, Mask
from aoi_fl.strategies.coordination import Coordination
from aoi_fl.strategies.policy import Carrier, Plan, Policy, PolicyTraits, RoundOutcome, RoundView
from aoi_fl.strategies.selection.absence import Absence
from aoi_fl.strategies.selection.rates import Shares, stride
from aoi_fl.strategies.selection.volunteers import VolunteerBound

SAME_MEET = (
    "The number of clients is a multiple of clients-per-round: the same clients always train together. "
    "Choose another number."
)


class RulePolicy(Policy):
    """Clients decide by a rule, by default with equal weights 1/|S|.

    Parameters
    ----------
    rule : issues the clients' terms; its presence, if it has one, is an :class:`Absence`
    clients, per_round : n and k, which the terms are made for
    coordination : "poll", "broadcast" or "reserve"
    shares : the clients' own rates; None: all have k/n, and share one table
    """

    rule: Any

    def __init__(
        self,
        rule: Any,
        clients: int,
        per_round: int,
        coordination: str,
        shares: Shares | None = None,
    ) -> None:
        by_size = shares is not None and shares.rule == "size"
        self.traits = PolicyTraits(
            clients,
            rates="known",
            sizes="required" if by_size else "unused",
            decides=True,
        )
        self.rule, self.clients, self.per_round = rule, clients, per_round
        self.coordination = Coordination(coordination)
        self.availability: Absence | None = getattr(rule, "presence", None)
        self.shares, self.volunteers = shares, VolunteerBound()
        self._slept: Mask = np.zeros(0, np.bool_)  # the clients that looked for no message at first
        self._asked: tuple[ParticipationRequest, ParticipationRequest] | None = (
            None  # what all clients are asked, and what it was made from
        )

    def plan(self, view: RoundView) -> Plan:
        """Find out which clients are willing; where none is, force one."""
        if view.second_attempt:
            return self._forced(view)
        if view.first:
            self._warn_of_number(view)
        self._slept = view.asleep
        self.issue(view)
        allowed = self._allowed(view)
        willing = self.coordination.announced(view) & allowed
        to_ask = np.flatnonzero(self.coordination.to_ask(view) & allowed).tolist()
        requests = {client: self._question(view.base, client) for client in to_ask}
        for client, answer in view.query(protocol.PARTICIPATE, requests) if requests else ():
            willing[client] = answer.takes_part
        return self._of(willing, view, undecided=self.coordination.undecided) if willing.any() else self._forced(view)

    def observe(self, outcome: RoundOutcome) -> str | None:
        """Learn which clients were available."""
        if self.availability is not None:
            self.availability.learn(outcome, self._slept)
            self.availability.warn(self.targets(len(outcome.view.known)), outcome.view.round)
        self.volunteers.note(outcome)
        return None

    def request_for(self, base: ParticipationRequest, client: int | None, on: Carrier) -> ParticipationRequest | None:
        """Return the question whether a client takes part, with its terms."""
        if on in ("hello", "evaluate") and on not in self.coordination.carriers:
            return None
        if client is None and self.terms(None) is None:
            return None
        return self._question(base, client)

    def describe(self) -> dict[str, Any]:
        """Return n, k, the coordination, and whether availability is learned."""
        return {
            "clients": self.clients,
            "per_round": self.per_round,
            "coordination": self.coordination.name,
            "absence": "ignored" if self.availability is None else "learned",
        }

    def state_dict(self) -> State:
        """Return what is known of the clients' availability and participations."""
        known = {} if self.availability is None else self.availability.state_dict()
        return {**known, **self.volunteers.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Restore it."""
        if self.availability is not None:
            self.availability.load_state_dict(state)
        self.volunteers.load_state_dict(state)

    def terms(self, client: int | None) -> Any:
        """Return a client's terms; with None those of all clients, or None where they differ."""
        return self.rule.to_message(client)

    def interval_law(self) -> IntervalLaw:
        """Return the law of the interval between two participations, where all clients have the same."""
        return cast(Any, self.traits.law).law()  # type: ignore[no-any-return]

    def issue(self, view: RoundView) -> None:
        """Give other rates to the clients once some have arrived or left."""
        if self.shares is None or (rates := self.shares.found(view)) is None:
            return
        here = np.ones(len(rates), np.bool_)
        if self.availability is None:
            connected = np.asarray(view.population.connected)
            here[: len(connected)] = connected
        self.rule = self.rule.reissue(rates, view.round - 1, here)

    def targets(self, clients: int) -> Floats:
        """Return (n,) how often each client is to take part: k/n for all."""
        return np.full(clients, self.per_round / self.clients)

    def achieved(self, clients: int) -> Floats:
        """Return (n,) how often each client does take part."""
        targets = self.targets(clients)
        return targets if self.availability is None else self.availability.achieved(targets)

    def ledger(self) -> dict[str, float]:
        """Return entries of the round's record."""
        return {}

    def _question(self, base: ParticipationRequest, client: int | None) -> ParticipationRequest:
        """Return what a client is asked; clients with the same terms get the same object."""
        if self._asked is not None and self._asked[0] is base:
            return self._asked[1]
        shared = self.terms(None)
        terms = self.terms(client) if shared is None else shared
        timed = base if self.coordination.name == protocol.RESERVE else base.untimed()
        question = replace(timed, wire=self.coordination.name, **vars(terms))
        self._asked = None if shared is None else (base, question)
        return question

    def _allowed(self, view: RoundView) -> Mask:
        """Return (n,) the clients that may take part, by the option ``volunteer_error``."""
        if not view.volunteer_error:
            return np.ones(len(view.free), np.bool_)
        return self.volunteers.allowed(self.interval_law(), len(view.free), view.round, view.volunteer_error)

    def _of(self, chosen: Mask, view: RoundView, *, forced: bool = False, undecided: bool = False) -> Plan:
        """Return the plan in which the chosen weigh the same."""
        clients, n = np.flatnonzero(chosen).astype(np.int64), len(chosen)
        members = None
        if self.availability is None:  # else the rates are what clients achieve with their absence
            members = view.last_seen >= view.round - stride(self.clients, self.per_round)
        return Plan(
            clients,
            np.ones(len(clients)),
            rates=self.achieved(n),
            members=members,
            forced=forced,
            undecided=undecided,
            ledger=self.ledger(),
        )

    def _forced(self, view: RoundView) -> Plan:
        """Force one client at random where none volunteered (Javani & Wang 2025, "forced selection").

        A private run forces none. A client that has just failed is left out. So is a silent one, if there are others,
        and a sleeping one, unless all sleep: then it is the first to wake up.
        """
        available = view.free & ~view.failed & view.rested & view.may_force
        answering = available & ~view.silent
        here = np.flatnonzero(answering if answering.any() else available)
        left = view.awake_in[here]
        here = here[left == 0] if not len(left) or left.min() == 0 else here[[left.argmin()]]
        chosen = np.zeros(len(available), np.bool_)
        if len(here):
            lots = draws.uniforms(view.seed, view.round, "forced", len(available))
            chosen[here[np.argmin(lots[here])]] = True
        return self._of(chosen, view, forced=bool(len(here)))

    def _warn_of_number(self, view: RoundView) -> None:
        """Warn that rounds are larger or smaller if there are more or fewer clients than the terms are made for."""
        n, k, known = self.clients, self.per_round, int(np.asarray(view.population.connected).sum())
        if known != n:
            logger.warning(
                "%d clients are connected, and the table is made for clients=%d: with per_round=%d, on average %.3g "
                "take part in a round. Set clients=%d.",
                known,
                n,
                k,
                k * known / n,
                known,
            )
