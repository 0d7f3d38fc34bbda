"""Simulated time: when replies arrive, by the availability and speed of the devices.

A wait for replies jumps to their arrival or to the deadline. A client that is unavailable, or leaves before it is done,
never answers a message. Its work ends with the round: no reply is fetched, so nothing is computed, and the client is
free for the next round. A strategy that uses late replies can foresee them.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from flwr.app import Message

from aoi_fl.lab.simulated_time.availability import Availability
from aoi_fl.lab.simulated_time.devices import Fates
from aoi_fl.protocol.clock import Clock
from aoi_fl.protocol.records import State
from aoi_fl.science.selection import Foresight
from aoi_fl.science.types import Mask


class Flight(NamedTuple):
    """A message on its way to a client and back.

    Attributes
    ----------
    starts, arrives, stops : seconds at which it is sent, answered (inf: never), and its client's work ends
    expires : seconds after which its reply is dropped
    """

    starts: float
    arrives: float
    stops: float
    expires: float


_UNKNOWN = Flight(0.0, np.inf, np.inf, np.inf)


class VirtualClock(Clock):
    """Simulated seconds since the start of a run; a resumed run continues them.

    Attributes
    ----------
    foresight : availability and speed of all devices, which no real server knows; None until their work is known
    model : bytes of the last model that was sent to train; 0: none yet
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._flights: dict[str, Flight] = {}
        self._foreseen: set[str] = set()
        self.foresight: Foresight | None = None
        self.model = 0.0

    @property
    def simulated(self) -> float:
        """The seconds up to now."""
        return self._now

    def now(self) -> float:
        """Return the seconds up to now."""
        return self._now

    def pass_until(self, when: float) -> None:
        """Let time pass; it never runs back."""
        self._now = max(self._now, when)

    def depart(self, messages: Sequence[Message], fates: Fates) -> None:
        """Record sent messages, which have ids, with their (s,) fates."""
        for message, arrives, stops in zip(messages, fates.arrives.tolist(), fates.stops.tolist(), strict=True):
            about = message.metadata
            self._flights[about.message_id] = Flight(self._now, arrives, stops, self._now + about.ttl)

    def has_come(self, message_id: str) -> bool:
        """Return whether a message's reply has arrived or is foreseen."""
        return self.arrives(message_id) <= self._now or message_id in self._foreseen

    def forget_expired(self) -> list[str]:
        """Forget expired messages and return their ids."""
        expired = [i for i, flight in self._flights.items() if flight.expires < self._now]
        for message_id in expired:
            del self._flights[message_id]
        self._foreseen &= self._flights.keys()
        return expired

    def wait(self, message_ids: Collection[str], count: int, seconds: float, until: float) -> None:
        """Jump to the arrival of ``count`` replies, or to ``until`` if that is earlier."""
        arrivals = sorted(map(self.arrives, message_ids))
        arrival = arrivals[min(count, len(arrivals)) - 1] if arrivals else np.inf
        self.pass_until(min(until, arrival))

    @contextmanager
    def as_of(self, seconds: float) -> Iterator[None]:
        """Let what is sent meanwhile have been sent at another second."""
        now, self._now = self._now, seconds
        yield
        self._now = now

    def came(self, reply: Message) -> float:
        """Return the second at which a reply arrived."""
        return self.arrives(reply.metadata.reply_to_message_id)

    def worked(self, message_id: str) -> float | None:
        """Return the seconds that a device has worked on a message so far."""
        flight = self._flights.get(message_id)
        return None if flight is None else min(flight.stops, self._now) - flight.starts

    def stops(self, message_id: str) -> float:
        """Return the second at which a device's work on a message ends: it is done, or leaves."""
        return self._flights.get(message_id, _UNKNOWN).stops

    def arrives(self, message_id: str) -> float:
        """Return the second at which a client answers a message, if the server waits."""
        return self._flights.get(message_id, _UNKNOWN).arrives

    def foresee(self, message_ids: Collection[str]) -> list[str]:
        """Make all replies that will arrive available now and return their ids; see :meth:`came`."""
        coming = [i for i in message_ids if np.isfinite(self.arrives(i))]
        self._foreseen.update(coming)
        return coming

    def state_dict(self) -> State:
        """Return the seconds up to now, and the model's bytes."""
        return {"clock": np.array([self._now, self.model])}

    def load_state_dict(self, memory: State) -> None:
        """Continue from a saved state."""
        if "clock" in memory:
            self._now, self.model = memory["clock"].tolist()

    def await_anybody(self, availability: Availability, until: float = np.inf) -> Mask:
        """Return (n,) the available clients; if there are none, wait for one, at most until then."""
        self._now, here = availability.next_present(self._now, until)
        return here
