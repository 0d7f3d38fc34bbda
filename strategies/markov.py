"""The decentralised policy: each client owns its age and decides for itself (Javani & Wang 2024, 2025).

The server sends the table p_0 … p_m and takes the answer. Three ways over the wire, one state machine behind all:

poll       every client is asked every round, then the willing train: n small exchanges and k with a model
broadcast  the model goes to everyone; who sits out answers without arrays: n exchanges with a model down, k up
reserve    a client draws its whole wait when it takes part and announces its next round with its update; only
           newcomers and those who missed a reservation are asked: k exchanges, whatever n is
"""

from dataclasses import replace
from typing import Any

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import NDArray

from aoi import draws, protocol
from aoi.errors import ConfigError
from aoi.markov import MarkovPolicy
from aoi.protocol import Answer, Ask
from strategies.base import AgeAwareStrategy
from strategies.plan import Plan


class MarkovParticipation(AgeAwareStrategy):
    """Clients take part by the Markov policy, with equal weights 1/|S| (Javani & Wang 2025, Policy 3).

    Parameters
    ----------
    policy : the policy; :meth:`optimal` and :meth:`increasing` make it from n, k and m
    wire : "poll", "broadcast" or "reserve"
    """

    def __init__(self, policy: MarkovPolicy, *, wire: str = protocol.POLL, **settings: Any) -> None:
        if wire not in protocol.WIRES:
            raise ConfigError(f"wire {wire!r} is unknown: choose one of {', '.join(protocol.WIRES)}.")
        super().__init__(policy.clients, **settings)
        self.policy = policy
        self.wire = wire

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

    def parameters(self) -> dict[str, Any]:
        """Return the policy's kind, n, k, table and wire mode."""
        policy = self.policy
        return {
            "kind": f"markov-{policy.kind}",
            "clients": policy.clients,
            "per_round": policy.per_round,
            "probabilities": list(policy.probabilities),
            "wire": self.wire,
        }

    def choose(self, ask: Ask, grid: Grid) -> Plan:
        """Find out who is willing, as the wire mode has it."""
        here = self.roster.available
        terms = replace(ask, wire=self.wire, table=self.policy.probabilities)
        if self.wire == protocol.BROADCAST:
            self._record.asked = int(here.sum())
            return _equal(here, terms)
        willing = np.zeros(len(here), np.bool_)
        to_ask = here
        if self.wire == protocol.RESERVE:
            willing = here & (self.roster.next_round == ask.round)
            to_ask = here & (self.roster.next_round < ask.round)
        for client, answer in self._ask_clients(grid, protocol.PARTICIPATE, terms, to_ask, Answer):
            self.learn(client, answer)
            willing[client] = answer.takes_part
            self._record.declined += not answer.takes_part
        self._record.willing = int(willing.sum())
        return _equal(willing, terms)

    def rescue(self, ask: Ask) -> Plan | None:
        """Force one client at random where nobody volunteered (Javani & Wang 2025, "forced selection")."""
        here = np.flatnonzero(self.roster.available)
        if not len(here):
            return None
        lots = draws.uniforms(self.options.seed, ask.round, "forced", len(self.roster))
        chosen = np.zeros(len(self.roster), np.bool_)
        chosen[here[np.argmin(lots[here])]] = True
        self._record.forced = True
        return _equal(chosen, replace(ask, wire=self.wire, table=self.policy.probabilities, forced=True))

    def learn(self, client: int, answer: Answer | None) -> None:
        """Note the round that a client has reserved."""
        self.roster.next_round[client] = 0 if answer is None or answer.next_round is None else answer.next_round


def _equal(chosen: NDArray[np.bool_], terms: Ask) -> Plan:
    clients = np.flatnonzero(chosen).astype(np.int64)
    return Plan(clients, np.ones(len(clients)), terms)
