"""Devices in simulated time: availability, speed, and the fate of their work.

All times are seconds from the start of the run.
"""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from aoi_fl.lab.simulated_time.availability import Availability, refuse
from aoi_fl.protocol.clock import ROUND_TRIP
from aoi_fl.science.types import Floats, Ints


class Fates(NamedTuple):
    """The fates of work given to s clients.

    Attributes
    ----------
    arrives : (s,) float64, of the reply; inf if the client is unavailable, or leaves before the end
    stops : (s,) float64, when the client is done, or leaves
    """

    arrives: Floats
    stops: Floats


@dataclass(frozen=True, eq=False)
class DeviceTrace:
    """n devices.

    Attributes
    ----------
    availability : of each
    speed : (n,) float64, seconds
    unit : of the speed: one pass over an ``example``; or, before the run's work is known, a local ``training`` on the
        mean number of examples
    download, upload : (n,) float64, bytes a second; inf: loading takes no time

    Raises ConfigError, with client and value, for a speed that is negative or not finite, or a bandwidth not above 0.
    """

    availability: Availability
    speed: Floats
    unit: Literal["example", "training"]
    download: Floats
    upload: Floats

    def __post_init__(self) -> None:
        slow, clients = ~(np.isfinite(self.speed) & (self.speed >= 0)), np.arange(len(self.speed))
        refuse(slow, clients, f"seconds for its {self.unit}", self.speed, "at least 0")
        for way, rates in (("download", self.download), ("upload", self.upload)):
            refuse(~(rates > 0), clients, way, rates, "above 0 bytes a second")

    @property
    def clients(self) -> int:
        """How many devices there are, n."""
        return self.availability.clients

    def first(self, clients: int) -> "DeviceTrace":
        """Return the first of these devices; raises ConfigError if there are fewer."""
        return replace(
            self,
            availability=self.availability.first(clients),
            speed=self.speed[:clients],
            download=self.download[:clients],
            upload=self.upload[:clients],
        )

    def starting(self, seconds: float) -> "DeviceTrace":
        """Return these devices in a run that begins at another second of the trace."""
        return replace(self, availability=self.availability.starting(seconds)) if seconds else self

    def devices(self, work: float) -> "DeviceTrace":
        """Return the devices of a run with a mean local training of ``work`` examples, epochs counted."""
        return self if self.unit == "example" else replace(self, speed=self.speed / work, unit="example")

    def seconds(
        self, clients: Ints, examples: float | Floats, down: float | Floats = 0.0, up: float | Floats = 0.0
    ) -> Floats:
        """Return (s,) how long clients take to load ``down`` bytes, train on examples, and send ``up`` bytes back.

        ``examples`` counts an example once for each local epoch. The unit of the speed is an example.
        """
        loading = down / self.download[clients] + up / self.upload[clients]
        taken: Floats = ROUND_TRIP + loading + self.speed[clients] * examples
        return taken

    def fates(self, clients: Ints, start: float, seconds: Floats) -> Fates:
        """Return the fates of work of these lengths that clients get at a time."""
        leaves = self.availability.until(start, clients)
        done = start + seconds
        return Fates(np.where(leaves >= done, done, np.inf), np.minimum(done, leaves))


def without_loading(
    availability: Availability, speed: float | Floats = 10.0, unit: Literal["example", "training"] = "training"
) -> DeviceTrace:
    """Return devices with this availability that load in no time; ``speed`` is (n,), or of each."""
    free = np.full(availability.clients, np.inf)
    return DeviceTrace(availability, np.full(availability.clients, speed, np.float64), unit, free, free)
