"""Thousands of clients that sleep between their rounds."""

from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.base import Row
from benchmarks.fleet import found, rows

PER_ROUND = 100
ROUND = 60.0  # seconds: longer than what a hundred updates and those who join take a SuperLink


def parts(data: Path) -> dict[str, Callable[[], Iterator[Row]]]:
    """Return what is played: as many as join within a quarter of an hour, and ten thousand."""
    return {"some": lambda: _played(2_000, 150, 1800.0), "many": lambda: _played(10_000, 250, 3600.0)}


def _played(clients: int, joining: int, seconds: float) -> Iterator[Row]:
    """Play it: rounds begin at a pace that can be kept, so that clients know how long they may sleep.

    They join while rounds go on: thousands that are awake look and send heartbeats more often than a SuperLink can
    answer. So do clients that wake up too early, where rounds take longer than they were told.
    """
    played = found(
        clients=clients, per_round=PER_ROUND, behaviour="asleep", round_seconds=ROUND, rounds=5,
        seconds=seconds, timeout=60.0, joining=joining,
    )  # fmt: skip
    yield from rows(played, round=5.0, between=50.0, memory=1024.0)
