"""Thousands of clients that sleep between their rounds."""

from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.base import Row
from benchmarks.fleet import found, rows

SOME, MANY, PER_ROUND, JOINING = 5_000, 10_000, 100, 100


def parts(data: Path) -> dict[str, Callable[[], Iterator[Row]]]:
    """Return what is played: as many as join within half an hour, and as many as are wanted."""
    return {"some": lambda: _played(SOME, 2400.0), "many": lambda: _played(MANY, 5400.0)}


def _played(clients: int, seconds: float) -> Iterator[Row]:
    """Play it: a round begins every thirty seconds at most, so that they know how long they may sleep.

    They join while rounds go on, a hundred at a time: thousands that are awake look and send heartbeats more often than
    a SuperLink can answer.
    """
    played = found(
        clients=clients, per_round=PER_ROUND, behaviour="asleep", round_seconds=30.0, rounds=8,
        seconds=seconds, timeout=60.0, joining=JOINING,
    )  # fmt: skip
    yield from rows(played, round=5.0, between=50.0, memory=1024.0)
