"""Broadcast: the model goes to everyone; who sits out answers without arrays: n exchanges, a model down, k up."""

import numpy as np
from numpy.typing import NDArray

from aoi_fl.strategies.records import RoundRecord
from aoi_fl.strategies.wires.base import Mask, Wire
from aoi_fl.wire import protocol


class Broadcast(Wire):
    """Asks with the model itself."""

    name = protocol.BROADCAST
    asks = False

    def announced(self, round_: int, here: Mask, next_round: NDArray[np.int64]) -> Mask:
        """Return everyone: who is not willing says so in place of training."""
        return here.copy()

    def to_ask(self, round_: int, here: Mask, next_round: NDArray[np.int64]) -> Mask:
        """Return nobody."""
        return np.zeros(len(here), np.bool_)

    def silent(self, record: RoundRecord, unanswered: int) -> int:
        """Return how many sent no reply; who answers with an error was willing, for declining runs nothing."""
        return sum(p.outcome == "late" for p in record.participations) - len(record.surplus)
