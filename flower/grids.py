"""Differences between Flower's grids: replies over a network, stalled uploads, failed calls."""

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from flwr.serverapp import Grid

from aoi_fl.flower.errors import code_of, is_busy
from aoi_fl.flower.versions import warn_once

_ROOM = "flwr.superlink.grid."
_GRPC = _ROOM + "grpc_grid.GrpcGrid"
_UPLOADING = {_GRPC, _ROOM + "http_grid.HttpGrid"}
_AT_ONCE = {_ROOM + "inmemory_grid.InMemoryGrid"}

_FORKS = "GRPC_ENABLE_FORK_SUPPORT"
_BROKEN = 20  # consecutive calls that fail with an internal error of the SuperLink
_HERE = threading.local()


def uploads(grid: Grid) -> bool:
    """Return whether clients upload their replies; other grids compute replies in the call.

    The class's name decides: to import Flower's modules takes longer than to import all of ours.
    """
    return not _UPLOADING.isdisjoint(_names(grid))


def registered_names(grid: Grid) -> dict[int, str]:
    """Return the registered name of each node that has one; none before Flower 1.38."""
    nodes: Iterable[Any] = getattr(grid, "get_nodes", tuple)()
    return {int(node.node_id): node.name for node in nodes if node.name}


packs = uploads  # whether to pack models: over a network each array of a model costs several calls


def be_patient(grid: Grid) -> None:
    """Let a grid over gRPC retry calls that fail with an internal error of the SuperLink.

    With many clients, the SuperLink's database may be locked for longer than its timeout. Flower's grid then gives up
    at once, and the run fails. Here it gives up after twenty such errors in a row. A call that a busy SuperLink refuses
    is retried until it succeeds.
    """
    invoker: Any = getattr(grid, "_retry_invoker", None)
    if invoker is None or _GRPC not in _names(grid):  # over HTTP its errors have no such codes
        return
    give_up, succeeded, broken = invoker.should_giveup, invoker.on_success, count(1)

    def should_give_up(error: Any) -> bool:
        if not is_broken_off(error):
            return not is_busy(error) and bool(give_up(error))
        return getattr(_HERE, "once", False) or next(broken) >= _BROKEN

    def on_success(state: Any) -> None:
        nonlocal broken
        broken = count(1)
        succeeded(state)

    invoker.should_giveup, invoker.on_success = should_give_up, on_success


def is_broken_off(error: Exception) -> bool:
    """Return whether a call failed with an internal error of the SuperLink."""
    return code_of(error) == "INTERNAL"


@contextmanager
def once() -> Iterator[None]:
    """Disable, in this thread, retries after internal errors; the caller handles these errors."""
    _HERE.once = True
    try:
        yield
    finally:
        _HERE.once = False


def say_what_ray_needs(grid: Grid) -> None:
    """Warn in Flower's simulation if gRPC's fork handlers may prevent Ray's start.

    Flower starts Ray after the ServerApp, and ends both without a reason if Ray fails.
    """
    if _AT_ONCE.intersection(_names(grid)) and os.environ.get(_FORKS, "1") not in ("0", "false"):
        warn_once(
            f"{_FORKS} is not 0: should this run end with 'Simulation Runtime crashed', then Ray did not start, as "
            "happens on a busy machine. End the local SuperLink (pkill -f flower-superlink), and begin with "
            f"{_FORKS}=0 flwr run …"
        )


def _names(grid: Grid) -> list[str]:
    return [f"{kind.__module__}.{kind.__qualname__}" for kind in type(grid).__mro__]
