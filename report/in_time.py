"""The cost of a run in simulated time: seconds, device-seconds and wasted work."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from aoi_fl.science.history import History
from aoi_fl.science.load import LoadMetrics, measure

Rows = Sequence[Mapping[str, Any]]  # of a ledger's table


@dataclass(frozen=True)
class InTime:
    """A run in simulated time.

    Attributes
    ----------
    seconds : duration from the start of the run to the end of its last round
    rounds : number of rounds
    worked : device-seconds of all work, used or not
    wasted : device-seconds of updates that were lost, late, refused or not awaited
    never : clients without any used update
    clients : n
    used : number of used updates
    history : history of the used participations
    curve : (simulated seconds, accuracy) of each evaluated round
    work : device-seconds of all clients with a model up to that round, used or not
    """

    seconds: float
    rounds: int
    worked: float
    wasted: float
    never: int
    clients: int
    used: int
    history: History
    curve: tuple[tuple[float, float], ...]
    work: tuple[float, ...] = ()

    @cached_property
    def load(self) -> LoadMetrics:
        """The load of the used participations."""
        return measure(self.history)

    @property
    def seconds_a_round(self) -> float:
        """Mean seconds per round."""
        return self.seconds / self.rounds

    @property
    def wasted_share(self) -> float:
        """The share of device-seconds without a used update."""
        return self.wasted / self.worked if self.worked else 0.0

    @property
    def never_share(self) -> float:
        """The share of clients never reached."""
        return self.never / self.clients

    def reaches(self, accuracy: float, by: float = math.inf) -> float | None:
        """Return the simulated seconds until an accuracy, or None if not reached by a time."""
        return next((when for when, value in self.curve if value >= accuracy and when <= by), None)

    def work_until(self, accuracy: float, by: float = math.inf) -> float | None:
        """Return the device-seconds until an accuracy, or None if not reached by a time."""
        reached = (
            w for (when, value), w in zip(self.curve, self.work, strict=True) if value >= accuracy and when <= by
        )
        return next(reached, None)

    def accuracy_at(self, seconds: float) -> float | None:
        """Return the last accuracy measured by a time."""
        return max(((when, value) for when, value in self.curve if when <= seconds), default=(0.0, None))[1]


def in_time(rounds: Rows, participations: Rows, clients: int) -> InTime | None:
    """Return a run's cost from a ledger's rows; None without simulated time or a complete round.

    >>> in_time([{"round": 1, "clock": None}], [], 4), in_time([], [], 4)
    (None, None)
    """
    if not rounds or rounds[-1].get("clock") is None:
        return None
    used = [part for part in participations if part["outcome"] == "trained"]
    history = History.from_arrays(
        clients,
        rounds[-1]["round"],
        [part["round"] for part in used],
        [part["client"] for part in used],
        [part["weight"] or 0.0 for part in used],
    )
    evaluated = [i for i, row in enumerate(rounds) if row["test_accuracy"] is not None]
    clock = np.array([row["clock"] for row in rounds], np.float64)
    when = np.searchsorted([row["round"] for row in rounds], [part["round"] for part in participations])
    seconds = np.array([part["device_seconds"] or 0.0 for part in participations], np.float64)
    if rounds[-1].get("at_work") is None:
        work = np.cumsum(np.bincount(when, seconds, len(rounds)))[evaluated].tolist()
    else:  # without a barrier work goes on while a model is made
        work = [float(np.clip(clock[i] - clock[when] + seconds, 0.0, seconds).sum()) for i in evaluated]
    return InTime(
        seconds=rounds[-1]["clock"],
        rounds=len(rounds),
        worked=sum(seconds.tolist()),
        wasted=sum(part["device_seconds"] or 0.0 for part in participations if part["outcome"] != "trained"),
        never=clients - len({part["client"] for part in used}),
        clients=clients,
        used=len(used),
        history=history,
        curve=tuple((rounds[i]["clock"], rounds[i]["test_accuracy"]) for i in evaluated),
        work=tuple(work),
    )
