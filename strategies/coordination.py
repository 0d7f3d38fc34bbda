"""How the decisions of clients travel. A coordination has no state.

poll       every client is asked in every round: n small exchanges, and k with a model; the papers' literal policy
broadcast  every client gets the model, and a client that sits out declines: n exchanges, a model down, k up
reserve    a client announces its next round with its update: k exchanges a round, whatever n is
"""

from abc import ABC, abstractmethod

import numpy as np

from aoi_fl import protocol
from aoi_fl.science.errors import check_choice
from aoi_fl.science.types import Mask
from aoi_fl.strategies.policy import Carrier, RoundOutcome, RoundView


class Coordination(ABC):
    """A way for decisions to travel.

    Attributes
    ----------
    name : the value of the run key
    undecided : whether clients decide when they get the model
    carriers : the messages that a question about participation may ride on
    """

    name: str
    undecided = False
    carriers: frozenset[Carrier] = frozenset()

    def announced(self, view: RoundView) -> Mask:
        """Return (n,) the clients that have announced this round; by default none."""
        return np.zeros(len(view.free), np.bool_)

    def to_ask(self, view: RoundView) -> Mask:
        """Return (n,) the free clients with an open decision; by default none."""
        return np.zeros(len(view.free), np.bool_)

    @abstractmethod
    def silent(self, outcome: RoundOutcome) -> int:
        """Return how many clients did not tell whether they are willing."""


class Poll(Coordination):
    """Ask every client in every round. A client that evaluates round t can answer for round t+1 with it."""

    name = protocol.POLL
    carriers = frozenset({"hello", "evaluate"})

    def to_ask(self, view: RoundView) -> Mask:
        """Return all free clients."""
        return view.free

    def silent(self, outcome: RoundOutcome) -> int:
        """Return how many clients failed to answer the question."""
        return sum(one.step == "ask" and one.result != "declined" for one in outcome.clients)


class Broadcast(Coordination):
    """Ask with the model itself."""

    name, undecided = protocol.BROADCAST, True

    def announced(self, view: RoundView) -> Mask:
        """Return all clients that can be asked: an unwilling client declines in place of training."""
        return view.population.available

    def silent(self, outcome: RoundOutcome) -> int:
        """Return how many sent no reply; a client that fails was willing, since declining runs nothing."""
        return sum(one.result == "late" for one in outcome.clients)


class Reserve(Poll):
    """A client draws its wait when it takes part, the same in law as a coin every round, and announces its end.

    Only newcomers are asked, and clients that missed a round that they had announced.
    """

    name = protocol.RESERVE
    carriers = frozenset({"hello"})

    def announced(self, view: RoundView) -> Mask:
        """Return the free clients that have reserved this round."""
        announced: Mask = view.free & (view.next_round == view.round)
        return announced

    def to_ask(self, view: RoundView) -> Mask:
        """Return the free clients that have reserved no round, or one that is past."""
        past: Mask = view.free & (view.next_round < view.round)
        return past


_COORDINATIONS: dict[str, type[Coordination]] = {one.name: one for one in (Poll, Broadcast, Reserve)}


def make_coordination(name: str) -> Coordination:
    """Return a coordination by its name.

    Raises
    ------
    ConfigError
        The name is unknown.
    """
    check_choice("coordination", name, _COORDINATIONS)
    return _COORDINATIONS[name]()
