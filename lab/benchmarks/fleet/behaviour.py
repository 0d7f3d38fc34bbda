"""The polls and heartbeats of a SuperNode: Flower's own, or ours, which may sleep."""

import time

from aoi_fl.client.poll_schedule import HEARTBEAT, LONGEST_LOOK, PollSchedule


class Stock:
    """Flower's own SuperNode: a poll every three seconds, a heartbeat every thirty."""

    def __init__(self, random):
        self._random = random

    def wait(self, took):
        """Return the seconds until the next poll; the last one took ``took`` and found nothing."""
        return LONGEST_LOOK

    def heartbeat(self):
        """Return the interval in the next heartbeat, and the seconds until the one after it."""
        return HEARTBEAT, (HEARTBEAT - 5.0) * self._random.uniform(0.7, 0.9)

    def answered(self, told):
        """Note that a message was answered, and the next one's expected time: it changes nothing."""


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


BEHAVIOURS = {"stock": Stock, "ours": Ours, "asleep": Ours}
