"""How the decisions of clients travel. A coordination has no state.

poll       every client is asked in every round: n small exchanges, and k with a model; the papers' literal policy
broadcast  every client gets the model, and a client that sits out declines: n exchanges, a model down, k up
reserve    a client announces its next round with its update: k exchanges a round, whatever n is. It draws its wait when
           it takes part, the same in law as a coin every round. Only newcomers are asked, and clients that missed a
           round that they had announced
"""

from aoi_fl import protocol
from aoi_fl.science.errors import check_choice
from aoi_fl.science.types import Mask
from aoi_fl.strategies.policy import Carrier, RoundOutcome, RoundView

# Under poll a client that evaluates round t can answer for round t+1 with it.
_CARRIERS: dict[str, frozenset[Carrier]] = {
    protocol.POLL: frozenset({"hello", "evaluate"}),
    protocol.BROADCAST: frozenset(),
    protocol.RESERVE: frozenset({"hello"}),
}


class Coordination:
    """A way for decisions to travel.

    Parameters
    ----------
    name : the value of the run key

    Attributes
    ----------
    undecided : whether clients decide when they get the model: an unwilling client declines in place of training
    carriers : the messages that a question about participation may ride on

    Raises
    ------
    ConfigError
        The name is unknown.
    """

    def __init__(self, name: str) -> None:
        check_choice("coordination", name, _CARRIERS)
        self.name, self.undecided, self.carriers = name, name == protocol.BROADCAST, _CARRIERS[name]

    def announced(self, view: RoundView) -> Mask:
        """Return (n,) the clients that need no question: free ones that reserved this round; all, if undecided."""
        if self.undecided:
            return view.population.available
        reserved: Mask = view.free & (view.next_round == view.round) & (self.name == protocol.RESERVE)
        return reserved

    def to_ask(self, view: RoundView) -> Mask:
        """Return (n,) the free clients with an open decision: under reserve no round, or one that is past."""
        past = (view.next_round < view.round) | (self.name == protocol.POLL)
        return view.free & past & (not self.undecided)

    def silent(self, outcome: RoundOutcome) -> int:
        """Return how many clients did not tell whether they are willing.

        An undecided client that fails was willing, since declining runs nothing.
        """
        if self.undecided:
            return sum(one.result == "late" for one in outcome.clients)
        return sum(one.step == "ask" and one.result != "declined" for one in outcome.clients)
