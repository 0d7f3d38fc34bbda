"""The polls and heartbeats of a SuperNode: Flower's own, or ours, which may sleep."""

import time
from collections.abc import Callable
from random import Random
from typing import Protocol

from aoi_fl.client.poll_schedule import HEARTBEAT, LONGEST_LOOK, PollSchedule


class Behaviour(Protocol):
    """The schedule of a node's polls and heartbeats."""

    def wait(self, took):
        """Return the seconds until the next poll; the last one took ``took`` and found nothing."""

    def heartbeat(self):
        """Return the interval in the next heartbeat, and the seconds until the one after it."""

    def answered(self, told):
        """Note that a message was answered, and the next one's expected time."""


class Stock:
    """Flower's own SuperNode: a poll every three seconds, a heartbeat every thirty."""

    def __init__(self, random):
        self._random = random

    def wait(self, took):
        """Return the pause of Flower's loop."""
        return LONGEST_LOOK

    def heartbeat(self):
        """Return Flower's interval, and its sender's pause."""
        return HEARTBEAT, (HEARTBEAT - 5.0) * self._random.uniform(0.7, 0.9)

    def answered(self, told):
        """Do nothing."""


class Ours:
    """Our SuperNode: the real schedule, by the real clock."""

    def __init__(self, random):
        self._looks = PollSchedule(time.monotonic())

    def wait(self, took):
        """Return the pause of its loop."""
        return self._looks.wait(time.monotonic(), took)

    def heartbeat(self):
        """Return the interval and the pause of its sender."""
        return self._looks.heartbeat(time.monotonic())

    def answered(self, told):
        """Restart the schedule."""
        self._looks.answered(time.monotonic(), told)


BEHAVIOURS: dict[str, Callable[[Random], Behaviour]] = {"stock": Stock, "ours": Ours, "asleep": Ours}
