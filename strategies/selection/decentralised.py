"""The decentralised policies: each client owns its age and decides for itself.

The server sends the terms and takes the answer. Three ways over the wire (:mod:`aoi_fl.strategies.wires`), one state
machine on the client's side behind all of them.
"""

import logging
import time
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import NDArray

from aoi_fl.science import draws
from aoi_fl.science.names import AbsenceRule
from aoi_fl.strategies.collect import decline
from aoi_fl.strategies.pace import Pace
from aoi_fl.strategies.patience import QUESTION, TRAINING
from aoi_fl.strategies.plan import Plan
from aoi_fl.strategies.records import Memory
from aoi_fl.strategies.round import AgeAwareStrategy
from aoi_fl.strategies.selection.absence import make_absence
from aoi_fl.strategies.selection.rates import stride
from aoi_fl.strategies.wires import make_wire
from aoi_fl.wire import protocol
from aoi_fl.wire.protocol import Answer, Ask

logger = logging.getLogger("flwr")


class DecentralisedParticipation(AgeAwareStrategy):
    """Base of the policies in which clients decide; by default with equal weights 1/|S|.

    Parameters
    ----------
    clients, per_round : n and k, which the clients' terms are made for
    wire : "poll", "broadcast" or "reserve"
    round_seconds : a round begins no sooner than so many seconds after the one before it; by it, or else by what rounds
        have taken, clients of the reserve wire sleep until the one that they have reserved
    absence : "ignored"; or "learned": how often each client is there, and how soon it comes back, is learned, for a
        policy that makes up for it; how much of the rates is out of reach is said
    """

    def __init__(
        self,
        clients: int,
        per_round: int,
        *,
        wire: str = protocol.POLL,
        round_seconds: float = 0.0,
        absence: AbsenceRule = "ignored",
        **settings: Any,
    ) -> None:
        super().__init__(clients, **settings)
        self._absence = make_absence(absence)
        self.clients, self.per_round = clients, per_round
        self._wire = make_wire(wire)
        self._pace = Pace(round_seconds)
        self._awake_at: dict[int, float] = {}  # by client, monotonic seconds until which it looks for no message
        self._slept: list[int] = []  # those who looked for none when the round began

    @property
    def wire(self) -> str:
        """The name of the wire."""
        return self._wire.name

    def question(self, ask: Ask) -> Ask:
        """Complete what all clients are asked in a round; what differs from client to client is :meth:`terms`."""
        return replace(ask, wire=self.wire, pace=self._told_pace())

    def _told_pace(self) -> float | None:
        # Where clients evaluate, any of them may be needed in any round: then nobody sleeps.
        evaluating = self.options.evaluators(1) and not self._so_far.unevaluable
        sleepy = self.wire == protocol.RESERVE and not evaluating
        return self._pace.seconds if sleepy else None

    def targets(self) -> NDArray[np.float64]:
        """Return (n,) how often each client is to take part: k/n for everybody."""
        return np.full(len(self.roster), self.per_round / self.clients)

    def rates(self) -> NDArray[np.float64]:
        """Return (n,) the clients' rates; of those whose absence is learned, what they achieve of them."""
        return self.targets() if self._absence is None else self._absence.achieved(self.targets())

    def counted(self) -> NDArray[np.bool_] | None:
        """Return (n,) who has not left; all, where absence is learned: then the rates are what they achieve with it."""
        if self._absence is not None:
            return None
        return self.roster.stayed(self._record.round, stride(self.clients, self.per_round))

    def parameters(self) -> dict[str, Any]:
        """Return n, k, the wire, and whether absence is learned."""
        return {
            "clients": self.clients,
            "per_round": self.per_round,
            "wire": self.wire,
            "absence": "ignored" if self._absence is None else "learned",
        }

    def memory(self) -> dict[str, NDArray[Any]]:
        """Return what the base does, and who was there, where that is learned."""
        return super().memory() | ({} if self._absence is None else self._absence.memory())

    def recall(self, memory: Memory) -> None:
        """Take back what :meth:`memory` returned."""
        super().recall(memory)
        if self._absence is not None:
            self._absence.recall(memory)

    def meet(self, connected: int) -> None:
        """Say what it means for a round if there are more or fewer clients than the terms are made for."""
        n, k = self.clients, self.per_round
        if connected != n:
            logger.warning(
                "%d clients are there, and the table is made for clients=%d: with per_round=%d, on average %.3g take "
                "part in a round. For another number, say clients=%d.",
                connected, n, k, k * connected / n, connected,
            )  # fmt: skip

    def issue(self, ask: Ask) -> None:
        """Settle what clients are told of rates or tables, once everybody is known who takes part in a round."""

    def choose(self, ask: Ask, grid: Grid) -> Plan:
        """Find out who is willing, as the wire has it."""
        self._pace.begin(lambda: self._greet_newcomers(ask.round, grid))
        self._slept = self.asleep()
        self.issue(ask)
        available, here = self.roster.available_but(()), self.roster.here(ask.round)
        question, record = self.question(ask), self._record
        if not self._wire.asks:
            record.asked = int(here.sum())
            return equal(self._wire.announced(ask.round, here, self.roster.next_round), question)
        willing = self._wire.announced(ask.round, available, self.roster.next_round)  # nobody's word is passed over
        undecided = self._wire.to_ask(ask.round, available, self.roster.next_round)
        early = {client: answer for client, answer in self._wire.early(question).items() if undecided[client]}
        to_ask = undecided & here
        to_ask[list(early)] = False
        asked = self._ask_clients(grid, protocol.PARTICIPATE, question, to_ask, Answer)
        for client, answer in chain(early.items(), asked):
            self.learn(client, replace(answer, sleeps=None) if answer.takes_part else answer)  # it waits for the model
            willing[client] = answer.takes_part
            if not answer.takes_part:
                decline(record, client, answer)
        record.asked += len(early)
        record.willing = int(willing.sum())
        return equal(willing, question)

    def observe(self, unanswered: int) -> None:
        """Learn who was there."""
        if self._absence is not None:
            self._absence.note(self.roster, self._record, self._slept)
            self._absence.warn(self.targets(), self._record)

    def ahead(self, ask: Ask) -> Ask | None:
        """Let a round's evaluation ask who takes part in the next, where the wire can."""
        return self._wire.ahead(self.question(ask))

    def hear(self, question: Ask, client: int, answer: Answer) -> None:
        """Keep what a client says of a round in which, or before which, it is asked in passing."""
        self._wire.hear(question, client, answer)

    def hear_late(self, round_: int, client: int, answer: Answer) -> None:
        """Keep the round that a client has reserved, if that is still to come, so that it is not asked in its sleep."""
        if self._wire.holds(answer, round_):
            self.learn(client, answer)
            self.roster.patience.answered(QUESTION, client)

    def rescue(self, ask: Ask) -> Plan | None:
        """Force one client at random where nobody volunteered (Javani & Wang 2025, "forced selection").

        Whoever has just failed is not waited for a second time. Nor is one that was silent before, if there are others;
        nor one that sleeps, unless all do: then it is the one that wakes up first.
        """
        available = self.roster.available_but(p.client for p in self._record.participations)
        answering = available & self.roster.available_but(self.roster.patience.silent(QUESTION, TRAINING))
        here = self._soonest(np.flatnonzero(answering if answering.any() else available))
        if not len(here):
            return None
        lots = draws.uniforms(self.options.seed, ask.round, "forced", len(self.roster))
        chosen = np.zeros(len(self.roster), np.bool_)
        chosen[here[np.argmin(lots[here])]] = True
        self._record.forced = True
        return equal(chosen, replace(self.question(ask), forced=True))

    def asleep(self) -> list[int]:
        """Return the clients that look for no message now; one whose round has come is to look, whatever it said."""
        now, coming = time.monotonic(), self.roster.next_round > self._record.round
        return [client for client, until in self._awake_at.items() if until > now and coming[client]]

    def learn(self, client: int, answer: Answer | None) -> None:
        """Note the round that a client has reserved, and until when it sleeps: as long as it was told that it may."""
        self.roster.next_round[client] = 0 if answer is None or answer.next_round is None else answer.next_round
        self._awake_at.pop(client, None)
        if answer is not None and answer.sleeps and (pace := self._told_pace()):
            longest = (self.roster.next_round[client] - self._record.round) * pace
            self._awake_at[client] = time.monotonic() + min(answer.sleeps, longest)

    def _soonest(self, clients: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of the clients that are awake, or else the one that is so first."""
        now = time.monotonic()
        left = np.array([max(0.0, self._awake_at.get(client, now) - now) for client in clients.tolist()])
        return clients[left == 0] if not len(left) or left.min() == 0 else clients[[left.argmin()]]


def equal(chosen: NDArray[np.bool_], terms: Ask) -> Plan:
    """Return the plan in which the chosen weigh the same."""
    clients = np.flatnonzero(chosen).astype(np.int64)
    return Plan(clients, np.ones(len(clients)), terms)
