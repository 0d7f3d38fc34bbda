"""What a wire says of a round: who has decided already, who is to be asked, and what silence means."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from aoi_fl.strategies.records import RoundRecord
from aoi_fl.wire.protocol import Answer, Ask

Mask = NDArray[np.bool_]


class Wire:
    """A way for decisions to travel; as it stands, nobody has said anything and everyone is asked."""

    name: ClassVar[str]
    asks: ClassVar[bool] = True  # before the model goes out

    def __init__(self) -> None:
        self._question: Ask | None = None  # that rode on another message
        self._early: dict[int, Answer] = {}  # to that; they are lost with the process, and then asked for again

    def announced(self, round_: int, here: Mask, next_round: NDArray[np.int64]) -> Mask:
        """Return (n,) who has announced long before that it takes part in a round."""
        return np.zeros(len(here), np.bool_)

    def to_ask(self, round_: int, here: Mask, next_round: NDArray[np.int64]) -> Mask:
        """Return (n,) whose decision is not known."""
        return here.copy()

    def ahead(self, question: Ask) -> Ask | None:
        """Return the next round's question if it may ride on this round's evaluation."""
        return None

    def hear(self, question: Ask, client: int, answer: Answer) -> None:
        """Keep a client's answer to a question that rode on another message."""
        if (decided_by := _decided_by(question)) != self._question:
            self._question, self._early = decided_by, {}
        self._early[client] = answer

    def early(self, question: Ask) -> Mapping[int, Answer]:
        """Return what clients have answered to this very question already."""
        return self._early if self._question == _decided_by(question) else {}

    def holds(self, answer: Answer, round_: int) -> bool:
        """Tell whether a client's answer in an earlier round says when it takes part, in this one or after it."""
        return False

    def silent(self, record: RoundRecord, unanswered: int) -> int:
        """Return how many of a round's dropped clients did not even say whether they are willing.

        Parameters
        ----------
        record : the round, after its training
        unanswered : how many had been dropped before the training
        """
        return unanswered


def _decided_by(question: Ask) -> Ask:
    """Return a question without what no decision depends on, and the next round's question may have otherwise."""
    return replace(question, pace=None, looks=None)
