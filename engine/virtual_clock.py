"""Simulated time: which replies come, and when, from devices that are there or not, and faster or slower.

Whoever waits for replies waits until they come or until the deadline, and the clock jumps there. A message to a client
that is away is never answered, nor is one whose client leaves before it is done. What a client works on in vain ends
with the round: nobody fetches it, so that it is not done in earnest, and the client is free for the next one. Whoever
has a use for replies that come later can foresee them.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from flwr.app import Message
from numpy.typing import NDArray

from aoi_fl import protocol
from aoi_fl.science.availability import Availability
from aoi_fl.science.devices import Devices, Foresight
from aoi_fl.strategies.records import State

logger = logging.getLogger("flwr")


@dataclass(frozen=True)
class Flight:
    """A message on its way to a client and back.

    Attributes
    ----------
    starts, arrives, stops : seconds: sent, answered (inf: never), worked on until
    expires : seconds, after which nobody asks for the reply
    trains : whether it carries a model to train
    """

    starts: float
    arrives: float
    stops: float
    expires: float
    trains: bool


class VirtualClock:
    """Simulated seconds from the start of a run, which a resumed run takes up where they were.

    Attributes
    ----------
    foresight : what no server can know, once the devices' work is known
    model : bytes of the last model that was sent to be trained; 0: none yet
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._flights: dict[str, Flight] = {}
        self._foreseen: set[str] = set()
        self._said = False
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

    def depart(
        self, messages: Sequence[Message], clients: NDArray[np.int64], devices: Devices, seconds: NDArray[np.float64]
    ) -> list[str]:
        """Note that messages are under way which take their clients so long; return the numbers of those that are lost.

        Parameters
        ----------
        messages : s of one kind, with their numbers
        clients, seconds : (s,) whom they are for, and how long each works and loads
        """
        fates = devices.fates(clients, self._now, seconds)
        for message, arrives, stops in zip(messages, fates.arrives.tolist(), fates.stops.tolist(), strict=True):
            about = message.metadata
            trains = protocol.category(about.message_type) == protocol.TRAIN
            self._flights[about.message_id] = Flight(self._now, arrives, stops, self._now + about.ttl, trains)
        lost = np.isinf(fates.arrives)
        return [message.metadata.message_id for message, gone in zip(messages, lost, strict=True) if gone]

    def answer_now(self, messages: Sequence[Message]) -> None:
        """Note that messages are answered at once, wherever their clients are."""
        for message in messages:
            about = message.metadata
            self._flights[about.message_id] = Flight(self._now, self._now, self._now, self._now + about.ttl, False)

    def has_come(self, message_id: str) -> bool:
        """Tell whether a message has its reply by now, or one that is foreseen."""
        return self._flights[message_id].arrives <= self._now or message_id in self._foreseen

    def forget_expired(self) -> list[str]:
        """Forget the messages whose replies nobody asks for any more, and return their numbers."""
        expired = [i for i, flight in self._flights.items() if flight.expires < self._now]
        for message_id in expired:
            del self._flights[message_id]
        self._foreseen &= self._flights.keys()
        return expired

    def wait(self, message_ids: Collection[str], count: int, seconds: float, until: float) -> None:
        """Jump to where ``count`` replies have come, or to ``until`` if that is earlier."""
        flights = [self._flights[i] for i in message_ids]
        arrivals = sorted(flight.arrives for flight in flights)
        came = arrivals[min(count, len(arrivals)) - 1] if arrivals else np.inf
        if arrivals and until < arrivals[0] < np.inf and flights[0].trains and not self._said:
            self._say_if_nobody(flights[0].starts, until)
        self.pass_until(min(until, came))

    def _say_if_nobody(self, begun: float, until: float) -> None:
        """Warn, once, where nobody who was sent the model at a time can answer by another."""
        fastest = min(flight.arrives for flight in self._flights.values() if flight.trains and flight.starts == begun)
        if fastest > until:
            logger.warning(
                "No selected client can answer in time: the deadline is %.4g simulated seconds, and the fastest client "
                "takes %.4g s. Raise train-timeout.", until - begun, fastest - begun,
            )  # fmt: skip
            self._said = True

    def came(self, reply: Message) -> float:
        """Return when a reply came."""
        return self._flights[reply.metadata.reply_to_message_id].arrives

    def worked(self, message_id: str) -> float | None:
        """Return for how many seconds a device has worked on a message up to now."""
        flight = self._flights.get(message_id)
        return None if flight is None else min(flight.stops, self._now) - flight.starts

    def stops(self, message_id: str) -> float:
        """Return until when a device works on a message, if nobody stops it: until it is done, or leaves."""
        flight = self._flights.get(message_id)
        return np.inf if flight is None else flight.stops

    def arrives(self, message_id: str) -> float:
        """Return when a client answers a message, if it is waited for."""
        flight = self._flights.get(message_id)
        return np.inf if flight is None else flight.arrives

    def foresee(self, message_ids: Collection[str]) -> list[str]:
        """Return which of these are answered at all, and let their replies be fetched now; :meth:`came` says when."""
        coming = [i for i in message_ids if i in self._flights and np.isfinite(self._flights[i].arrives)]
        self._foreseen.update(coming)
        return coming

    def state_dict(self) -> State:
        """Return the seconds up to now, and the model's bytes."""
        return {"clock": np.array([self._now, self.model])}

    def load_state_dict(self, memory: State) -> None:
        """Go on from there."""
        if "clock" in memory:
            self._now, *more = memory["clock"].tolist()
            self.model = more[0] if more else 0.0  # a run of an earlier version has not kept it

    def await_anybody(self, availability: Availability, until: float = np.inf) -> NDArray[np.bool_]:
        """Return (n,) who is there; where nobody is, wait until somebody comes, or in vain until then."""
        when, here = availability.next_present(self._now)
        self.pass_until(min(when, until))
        return here & (when <= self._now)
