"""What a run has come to, by which it is judged; carried across a break like everything else."""

from dataclasses import astuple, dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from aoi_fl.science.errors import NothingTrainedError
from aoi_fl.strategies.records import RoundRecord


@dataclass
class RunProgress:
    """What has happened in a run up to now.

    Attributes
    ----------
    trained : whether an update has been used
    evaluated : whether a client has evaluated the model
    unevaluable : whether clients have shown that their app evaluates nothing: none is asked again
    idle : rounds in a row without a usable update
    """

    trained: bool = False
    evaluated: bool = False
    unevaluable: bool = False
    idle: int = 0

    def state_dict(self) -> NDArray[np.int64]:
        """Return it as (4,) numbers."""
        return np.array(astuple(self), np.int64)

    @classmethod
    def load_state_dict(cls, memory: NDArray[np.int64]) -> Self:
        """Return what :meth:`state_dict` was made of."""
        trained, evaluated, unevaluable, idle = memory.tolist()
        return cls(bool(trained), bool(evaluated), bool(unevaluable), idle)


def nothing_trained(last: RoundRecord, withheld: int) -> NothingTrainedError:
    """Return the error of a run in which no update could be used, with what is known of its last round.

    ``withheld`` is how many clients were sent the model in that, if somebody else plays the rounds and no reply came.
    """
    lost = [part for part in last.participations if part.outcome != "trained"]
    reasons = list(dict.fromkeys(f"{part.name} {part.outcome}: {part.reason}" for part in lost))
    remedy = ". Raise train-timeout" if {p.outcome for p in last.participations} == {"late"} else ""
    none = "No client was sent the model in the last of them."
    if last.trained:
        none = f"In the last of them no model was made of {last.trained} updates."
    if withheld:
        none = (
            f"In the last of them {withheld} client(s) were sent the model, and no reply was handed on: whoever plays "
            "the rounds, as a wrapper of Flower's that wants a reply without an error from each client, keeps them to "
            "itself."
        )
    return NothingTrainedError(
        f"not one update could be used in {last.round} round(s), so the model is the one that the run began with. "
        f"{'; '.join(reasons[:3]) or none}{remedy}"
    )
