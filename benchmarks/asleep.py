"""Ten thousand clients that sleep between their rounds."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.base import Row
from benchmarks.fleet import found, rows

CLIENTS, PER_ROUND = 10_000, 100
ROUND = 120.0  # seconds: longer than what a hundred updates and those who join meanwhile take a SuperLink
JOINING = 450  # in a round
SECONDS = 4800.0


def run(data: Path) -> Iterator[Row]:
    """Play it: rounds begin at a pace that can be kept, so that clients know how long they may sleep.

    They join while rounds go on: thousands that are awake look and send heartbeats more often than a SuperLink can
    answer. So do clients that wake up too early, where rounds take longer than they were told.
    """
    played = found(
        clients=CLIENTS, per_round=PER_ROUND, behaviour="asleep", round_seconds=ROUND, rounds=5,
        seconds=SECONDS, timeout=60.0, joining=JOINING,
    )  # fmt: skip
    yield from rows(played, round=5.0, between=50.0, memory=1024.0)
