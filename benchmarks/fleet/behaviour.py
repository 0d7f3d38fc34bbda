"""How a SuperNode paces its looks for messages and its heartbeats: Flower's own, or ours, which may sleep."""

import time
from collections.abc import Callable
from random import Random
from typing import Protocol

from aoi_fl.client.poll_schedule import HEARTBEAT, LONGEST_LOOK, NextMessage, PollSchedule


class Behaviour(Protocol):
    """When a node looks for its next message, and how often it says that it lives."""

    def wait(self, took: float) -> float:
        """Return the seconds until the next look, after one that found nothing and took so many."""

    def heartbeat(self) -> tuple[float, float]:
        """Return the interval that the next heartbeat names, and the seconds until the one after it."""

    def answered(self, told: NextMessage) -> None:
        """Take note that a message has been answered, and what is known of the next one."""


class Stock:
    """Flower's own SuperNode: a look every three seconds, a heartbeat every thirty."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def wait(self, took: float) -> float:
        """Return what Flower's loop sleeps."""
        return LONGEST_LOOK

    def heartbeat(self) -> tuple[float, float]:
        """Return Flower's interval, and its sender's wait."""
        return HEARTBEAT, (HEARTBEAT - 5.0) * self._random.uniform(0.7, 0.9)

    def answered(self, told: NextMessage) -> None:
        """Change nothing."""


class Ours:
    """Our SuperNode: the real one's looks, by the real clock."""

    def __init__(self, random: Random) -> None:
        self._looks = PollSchedule(time.monotonic())

    def wait(self, took: float) -> float:
        """Return what its loop sleeps."""
        return self._looks.wait(time.monotonic(), took)

    def heartbeat(self) -> tuple[float, float]:
        """Return the interval and the wait of its sender."""
        return self._looks.heartbeat(time.monotonic())

    def answered(self, told: NextMessage) -> None:
        """Begin to wait anew."""
        self._looks.answered(time.monotonic(), told)


BEHAVIOURS: dict[str, Callable[[Random], Behaviour]] = {"stock": Stock, "ours": Ours, "asleep": Ours}
