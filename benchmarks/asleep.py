"""Ten thousand clients that sleep between their rounds."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.base import Row
from benchmarks.fleet import found, rows

MANY, PER_ROUND, JOINING = 10_000, 100, 200


def run(data: Path) -> Iterator[Row]:
    """Play it: a round begins every twenty seconds, so that they know how long they may sleep.

    They join while rounds go on, two hundred at a time: ten thousand that are awake look and send heartbeats more
    often than a SuperLink can answer.
    """
    played = found(
        clients=MANY, per_round=PER_ROUND, behaviour="asleep", round_seconds=20.0, rounds=8,
        seconds=3300.0, timeout=60.0, joining=JOINING,
    )  # fmt: skip
    yield from rows(played, round=5.0, between=50.0, memory=1024.0)
