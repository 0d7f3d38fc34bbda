"""Reserve: a client announces its next round with its update; k exchanges a round, whatever n is.

It draws its whole wait when it takes part, which is the same in law as a coin every round. Only newcomers, and those
who missed a round that they had announced, are asked.
"""

import numpy as np
from numpy.typing import NDArray

from aoi_fl.strategies.wires.base import Mask, Wire
from aoi_fl.wire import protocol
from aoi_fl.wire.protocol import Answer


class Reserve(Wire):
    """Asks those of whom no coming round is known."""

    name = protocol.RESERVE

    def announced(self, round_: int, here: Mask, next_round: NDArray[np.int64]) -> Mask:
        """Return who has announced this round."""
        announced: Mask = here & (next_round == round_)
        return announced

    def to_ask(self, round_: int, here: Mask, next_round: NDArray[np.int64]) -> Mask:
        """Return who has announced none, or one that is past."""
        past: Mask = here & (next_round < round_)
        return past

    def holds(self, answer: Answer, round_: int) -> bool:
        """Tell whether the round that was reserved is still to come: until then the client may sleep."""
        return answer.next_round is not None and answer.next_round >= round_
