"""What a policy supplies to the round: who takes part, and with what weight; all else has a default."""

from abc import abstractmethod
from typing import Any

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import NDArray

from aoi_fl.strategies.plan import Plan
from aoi_fl.wire.protocol import Answer, Ask


class SelectionPolicy:
    """The part of a strategy that is the policy's own; :class:`aoi_fl.strategies.round.AgeAwareStrategy` plays it."""

    @abstractmethod
    def choose(self, ask: Ask, grid: Grid) -> Plan:
        """Decide who is sent the model in round ``ask.round``; ``ask`` holds run and round, to be completed."""

    def rescue(self, ask: Ask) -> Plan | None:
        """Say who trains in a round in which nobody was willing; None leaves it empty."""
        return None

    def rates(self) -> NDArray[np.float64] | None:
        """Return (n,) how often each client takes part, in participations a round; None where nobody knows."""
        return None

    def counted(self) -> NDArray[np.bool_] | None:
        """Return (n,) of whose data unbiased weights are to be the shares; None: of all who ever came."""
        return None

    def terms(self, ask: Ask, client: int) -> Ask:
        """Complete what a client is asked, or sent with the model, by what differs from client to client."""
        return ask

    def meet(self, connected: int) -> None:
        """Take note of how many clients there are when the first round begins."""

    def learn(self, client: int, answer: Answer | None) -> None:
        """Take note of what a client said, with an update or in place of one."""

    def observe(self, unanswered: int) -> None:
        """Take note of what came of a round's training, by its record, whatever made the model of the updates.

        ``unanswered`` clients were dropped before, when they were asked.
        """

    def over(self) -> str | None:
        """Say why the run is complete before its last round; None while there is another one to play."""
        return None

    def asleep(self) -> list[int]:
        """Return the clients that look for no message now, by leave of the policy."""
        return []

    def ahead(self, ask: Ask) -> Ask | None:
        """Complete the next round's question, ``ask``, that rides on this round's evaluation; None: it does not.

        Called when this round's training is over.
        """
        return None

    def greeting(self, ask: Ask) -> Ask:
        """Complete what whoever introduces itself in a round is asked at once, where all are asked the same.

        By the wire of ``ask`` a client tells whether it has been asked: under a central one nobody is.
        """
        return ask

    def hear(self, question: Ask, client: int, answer: Answer) -> None:
        """Take note of the answer to a question that rode on an evaluation or a roll call."""

    def hear_late(self, round_: int, client: int, answer: Answer) -> None:
        """Take note, as a round begins, of what a client has decided that answered an earlier message too late."""

    def parameters(self) -> dict[str, Any]:
        """Return the policy's parameters, for the log and the ledger."""
        return {"kind": type(self).__name__}
