"""The cost of a run in simulated time: seconds, device-seconds and wasted work."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aoi_fl.server.ledger import Row


@dataclass(frozen=True)
class InTime:
    """A run in simulated time.

    Attributes
    ----------
    seconds : duration from the start of the run to the end of its last round
    seconds_a_round : mean seconds per round
    worked : device-seconds of all work, used or not
    wasted : device-seconds of updates that were lost, late, refused or not awaited
    never : clients without any used update
    curve : (simulated seconds, accuracy, device-seconds of all clients with a model until then) of evaluated rounds
    """

    seconds: float
    seconds_a_round: float
    worked: float
    wasted: float
    never: int
    curve: tuple[tuple[float, float, float], ...]

    @property
    def wasted_share(self) -> float:
        """The share of device-seconds without a used update."""
        return self.wasted / self.worked if self.worked else 0.0

    def reaches(self, accuracy: float, by: float = math.inf) -> tuple[float | None, float | None]:
        """Return the simulated seconds and the device-seconds until an accuracy; None if not reached by a time."""
        reached = ((when, work) for when, value, work in self.curve if value >= accuracy and when <= by)
        return next(reached, (None, None))

    def accuracy_at(self, seconds: float) -> float | None:
        """Return the last accuracy measured by a time."""
        return max((point for point in self.curve if point[0] <= seconds), default=(0.0, None))[1]


def in_time(rounds: Sequence[Row], participations: Sequence[Row], clients: int) -> InTime | None:
    """Return a run's cost from a ledger's rows; None without simulated time or a complete round.

    >>> in_time([{"round": 1, "clock": None}], [], 4), in_time([], [], 4)
    (None, None)
    """
    if not rounds or rounds[-1].get("clock") is None:
        return None
    evaluated = [i for i, row in enumerate(rounds) if row["test_accuracy"] is not None]
    clock = np.array([row["clock"] for row in rounds], np.float64)
    when = np.searchsorted([row["round"] for row in rounds], [part["round"] for part in participations])
    seconds = np.array([part["device_seconds"] or 0.0 for part in participations], np.float64)
    if rounds[-1].get("at_work") is None:
        work = np.cumsum(np.bincount(when, seconds, len(rounds)))[evaluated].tolist()
    else:  # without a barrier work goes on while a model is made
        work = [float(np.clip(clock[i] - clock[when] + seconds, 0.0, seconds).sum()) for i in evaluated]
    end = rounds[-1]["clock"]
    return InTime(
        seconds=end,
        seconds_a_round=end / len(rounds),
        worked=sum(seconds.tolist()),
        wasted=sum(part["device_seconds"] or 0.0 for part in participations if part["outcome"] != "trained"),
        never=clients - len({part["client"] for part in participations if part["outcome"] == "trained"}),
        curve=tuple((rounds[i]["clock"], rounds[i]["test_accuracy"], w) for i, w in zip(evaluated, work, strict=True)),
    )
