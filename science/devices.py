"""Devices in simulated time: when they are there, how fast they train and load, and what becomes of work given to them.

All times are seconds from the start of the run, which is where a trace begins unless another second is chosen. An
estimate of a client's seconds that the server could have made itself comes with its updates; :class:`Foresight` is what
no server can know.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from aoi_fl.science.availability import Availability, Clients, Seconds, always
from aoi_fl.science.errors import ConfigError

ROUND_TRIP = 1.0  # seconds that a message and its reply take besides


@dataclass(frozen=True, eq=False)
class Devices:
    """n devices.

    Attributes
    ----------
    availability : when each is there
    seconds_per_example : (n,) float64, training on one example, once
    download, upload : (n,) float64, bytes a second; inf: loading takes no time
    round_trip : seconds that a message and its reply take besides
    """

    availability: Availability
    seconds_per_example: Seconds
    download: Seconds
    upload: Seconds
    round_trip: float = ROUND_TRIP

    def seconds(
        self, clients: Clients, examples: Seconds, down: float | Seconds = 0.0, up: float | Seconds = 0.0
    ) -> Seconds:
        """Return (s,) how long clients take to load ``down`` bytes, pass through examples, and send ``up`` bytes back.

        ``examples`` (s,) counts an example once for each local epoch.
        """
        loading = down / self.download[clients] + up / self.upload[clients]
        return self.round_trip + loading + self.seconds_per_example[clients] * examples

    def fates(self, clients: Clients, start: float, seconds: Seconds) -> "Fates":
        """Return what becomes of work of these lengths that clients are given at a time."""
        leaves = self.availability.until(start, clients)
        done = start + seconds
        return Fates(np.where(leaves >= done, done, np.inf), np.minimum(done, leaves))


@dataclass(frozen=True, eq=False)
class Fates:
    """What becomes of work given to s clients.

    Attributes
    ----------
    arrives : (s,) float64, when the reply is there; inf where the client is away, or leaves before it is done
    stops : (s,) float64, until when the client works on it, if nobody stops it: until it is done, or leaves
    """

    arrives: Seconds
    stops: Seconds


@dataclass(frozen=True, eq=False)
class DeviceTrace:
    """n devices as a file or a generator describes them, before anything is known of the run's work.

    Attributes
    ----------
    availability : when each is there
    speed : (n,) float64, seconds
    unit : what takes that long: an ``example``, or a whole local ``training`` over the mean number of examples
    download, upload : (n,) float64, bytes a second
    untold : what the source does not tell, ``availability`` or ``speed``, so that all are taken for alike in it

    Raises
    ------
    ConfigError
        Naming client and value: a speed that is negative, infinite or not a number; a bandwidth that is not above 0.
    """

    availability: Availability
    speed: Seconds
    unit: Literal["example", "training"]
    download: Seconds
    upload: Seconds
    untold: str = ""

    def __post_init__(self) -> None:
        speeds = np.isfinite(self.speed) & (self.speed >= 0)
        if not speeds.all():
            i = int(np.argmin(speeds))
            raise ConfigError(
                f"client {i}: seconds for its {self.unit}", self.speed[i], "at least 0", "Correct the trace."
            )
        for way, rates in (("download", self.download), ("upload", self.upload)):
            if not (rates > 0).all():
                i = int(np.argmin(rates > 0))
                raise ConfigError(f"client {i}: {way}", rates[i], "above 0 bytes a second", "Correct the trace.")

    @property
    def clients(self) -> int:
        """How many devices there are, n."""
        return self.availability.clients

    def first(self, clients: int) -> "DeviceTrace":
        """Return the first ones of these devices; raises ConfigError if there are fewer."""
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

    def devices(self, work: float, round_trip: float = ROUND_TRIP) -> Devices:
        """Return the devices of a run whose mean local training passes through ``work`` examples, epochs counted."""
        per_example = self.speed if self.unit == "example" else self.speed / work
        return Devices(self.availability, per_example, self.download, self.upload, round_trip)


def alike(availability: Availability, seconds: float = 10.0) -> DeviceTrace:
    """Return devices that are equally fast, whenever they are there; a local training takes ``seconds``."""
    free = np.full(availability.clients, np.inf)
    return DeviceTrace(availability, np.full(availability.clients, seconds), "training", free, free)


def steady(clients: int, seconds: float = 10.0) -> DeviceTrace:
    """Return devices that are always there and equally fast."""
    return alike(always(clients), seconds)


@dataclass(frozen=True, eq=False)
class Foresight:
    """What no server can know, for policies whose paper gives it to them.

    Attributes
    ----------
    availability : when each client is there, the future included
    seconds : (n,) float64, how long each client's training will take; loading is in it once a model has been sent
    uploads : (n,) float64, how much of that goes into sending the update
    """

    availability: Availability
    seconds: Seconds
    uploads: Seconds
