"""Ten thousand clients that sleep between their rounds."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.base import Row
from benchmarks.fleet import found, rows

MANY, PER_ROUND = 10_000, 100


def run(data: Path) -> Iterator[Row]:
    """Play it: a round begins every five seconds, so that they know how long they may sleep."""
    played = found(
        clients=MANY, per_round=PER_ROUND, behaviour="asleep", round_seconds=5.0, rounds=40,
        seconds=3000.0, timeout=1800.0,
    )  # fmt: skip
    yield from rows(played, round=5.0, between=50.0, memory=1024.0)
