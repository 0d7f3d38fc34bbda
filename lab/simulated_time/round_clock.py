"""Simulated time for selection without learning: rounds take seconds, on devices of limited availability."""

import math
from dataclasses import dataclass, field

import numpy as np

from aoi_fl.lab.simulated_time.devices import DeviceTrace
from aoi_fl.protocol.clock import FIRST, ROUND_TRIP
from aoi_fl.science import draws
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.types import Floats, Mask


@dataclass(eq=False)
class RoundClock:
    """The clock of one simulation, vectorised over the clients.

    A round ends with the last update, the ``enough``-th one, or the deadline; an empty one after the time of a
    question. Clients that are asked for their decision receive the model with it, as with ``coordination=broadcast``.

    Attributes
    ----------
    devices : of n clients
    work : (n,) float64, examples of a local training, epochs counted
    deadline : seconds of a round, at most
    enough : updates that end a round; later ones are in vain
    until : seconds after which no round begins
    model : bytes that a training loads before, and as many after
    seed : of the order of simultaneous updates
    now : simulated seconds up to now
    ends : when each round ended
    worked, wasted : device-seconds, and those of them in vain
    seconds : (n,) float64, of a training, loading included
    there : (n,) int64, at the start of how many rounds each client was available

    Raises ConfigError if no device is ever available.
    """

    devices: DeviceTrace
    work: Floats
    deadline: float = 3600.0
    enough: int | None = None
    until: float = math.inf
    model: float = 0.0
    seed: int = 0
    now: float = 0.0
    ends: list[float] = field(default_factory=list)
    worked: float = 0.0
    wasted: float = 0.0

    def __post_init__(self) -> None:
        if not len(self.devices.availability.begins):
            raise ConfigError("trace", None, "one in which devices are available", "Use another trace.")
        self.seconds = self.devices.seconds(np.arange(len(self.work)), self.work, self.model, self.model)
        self.there = np.zeros(len(self.work), np.int64)
        self._here: tuple[int, Mask] = 0, np.zeros(0, np.bool_)

    def here(self, round_: int) -> Mask:
        """Return (n,) which clients are available as a round begins; with none, time moves on to the next one."""
        if self._here[0] != round_:
            self.now, here = self.devices.availability.next_present(self.now, self.until)
            self._here = round_, here
            self.there += here
        return self._here[1]

    def play(self, round_: int, chosen: Mask) -> Mask:
        """Let the chosen clients that are available train, end the round, and return (n,) whether updates arrived."""
        clients = np.flatnonzero(chosen & self.here(round_))
        came = np.zeros(len(chosen), dtype=np.bool_)
        end = self.now + ROUND_TRIP
        if len(clients):
            fates = self.devices.fates(clients, self.now, self.seconds[clients])
            lots = draws.uniforms(self.seed, round_, FIRST, len(chosen))[clients]
            first = np.lexsort((lots, fates.arrives))[: self.enough]
            end = min(float(fates.arrives[first[-1]]), self.now + self.deadline)
            kept = np.zeros(len(clients), dtype=np.bool_)
            kept[first] = fates.arrives[first] <= end
            came[clients[kept]] = True
            spent = np.minimum(fates.stops, end) - self.now
            self.worked += float(spent.sum())
            self.wasted += float(spent[~kept].sum())
        self.now = end
        self.ends.append(end)
        return came
