"""Flower's own SuperNodes in growing numbers: on our SuperLink until rounds time out, and on Flower's."""

from aoi_fl.lab.benchmarks.base import Row
from aoi_fl.lab.benchmarks.fleet import PER_ROUND, found, rows

LADDER = (250, 500, 1000, 2000)
FLOWER = (50, 100, 250)
SECONDS = 120.0  # for three rounds
_WHAT = "stock SuperNodes on our SuperLink with which three rounds"


def run(data):
    """Increase the number of nodes until three rounds do not complete in time."""
    for clients in FLOWER:
        yield from rows(_played(clients, "stock"))
    completed = 0
    for clients in LADDER:
        played = _played(clients, "ours")
        if not played.complete:
            note = f"with {completed} they did" if completed else "with fewer they were not tried"
            yield Row(f"{_WHAT} do not complete in {SECONDS:g} s", "–", None, clients, "SuperNodes", note)
            return
        yield from rows(played)
        completed = clients
    yield Row(f"{_WHAT} complete in {SECONDS:g} s", "–", None, completed, "SuperNodes", "more were not tried")


def _played(clients, server):
    return found(clients=clients, per_round=PER_ROUND, behaviour="stock", server=server, rounds=3, seconds=SECONDS)
