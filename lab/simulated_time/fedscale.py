"""Read FedScale's files on devices: pickles with a dict for each client.

A pickle can run any code when it is loaded. This reader makes numbers, strings, lists and dicts only.
"""

import math
import pickle
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from aoi_fl.science.availability import Availability, always
from aoi_fl.science.devices import DeviceTrace, alike
from aoi_fl.science.errors import ConfigError

_TRAINING = 3.0  # of an inference: the backward pass takes two more, as FedScale counts
_KBIT = 1024 / 8  # bytes, as FedScale counts
_SHOWN = 20  # bytes that an error shows of a file that is no pickle
_MOST = 1e6  # spells of a client that repeats its period


class _Plain(pickle.Unpickler):
    """Load numbers, strings, lists, tuples and dicts, and import nothing that a pickle names."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse to import a name."""
        raise pickle.UnpicklingError(f"it names {module}.{name}, and may hold numbers and strings only")


def unpickled(path: Path) -> Mapping[Any, Any]:
    """Return a file's dict of clients, by number.

    Raises
    ------
    ConfigError : the file is no pickle of plain values, or has no dict for each client.
    """
    try:
        with path.open("rb") as file:
            begins = file.read(_SHOWN)
            file.seek(0)
            clients = _Plain(file).load()
    except OSError:
        raise
    except Exception as error:  # a file that is no pickle raises any type
        why = error if begins[:1] == pickle.PROTO else f"it begins with {begins!r}"
        allowed = f"an npz file or a pickle of plain values ({why})"
        raise ConfigError("content", None, allowed, "See docs/clock.md for the file formats.") from None
    if not isinstance(clients, dict) or not clients or not all(isinstance(entry, dict) for entry in clients.values()):
        raise ConfigError("content", type(clients).__name__, "one dict for each client", "Use FedScale's own file.")
    if kinds := ", ".join(sorted({type(client).__name__ for client in clients} - {"int"})):
        raise ConfigError("client names", kinds, "all int", "Number the clients.")
    return clients


def kind(clients: Mapping[Any, Any]) -> str:
    """Return a file's kind, ``availability`` or ``capacity``; raise ConfigError for any other."""
    keys = next(iter(clients.values())).keys()
    if {"active", "inactive", "finish_time"} <= keys:
        return "availability"
    if {"computation", "communication"} <= keys:
        return "capacity"
    allowed = "active, inactive and finish_time (availability), or computation and communication (capacity)"
    raise ConfigError("columns", ", ".join(map(str, keys)), allowed, "Use FedScale's own file.")


def devices(presence: Mapping[Any, Any] | None, capacity: Mapping[Any, Any] | None) -> DeviceTrace:
    """Return the devices of both files, in the order of their numbers, cut to the shorter file."""
    count = min(len(part) for part in (presence, capacity) if part is not None)
    if presence is None:
        availability = always(count)
    else:
        availability = _spells({key: presence[key] for key in sorted(presence)[:count]})
    if capacity is None:
        return replace(alike(availability), untold="speed")
    clients = sorted(capacity)[:count]
    inference = np.array([_finite(capacity[key], "computation", key) for key in clients])
    kilobits = np.array([_finite(capacity[key], "communication", key) for key in clients])
    loading = kilobits * _KBIT
    untold = "availability" if presence is None else ""
    return DeviceTrace(availability, _TRAINING * inference / 1000, "example", loading, loading, untold)


def _spells(clients: Mapping[Any, Any]) -> Availability:
    """Return FedScale's spells; a client with a shorter period than the longest repeats it."""
    periods = {key: _number(entry, "finish_time", key) for key, entry in clients.items()}
    for key, period in periods.items():
        if not 1 <= period < math.inf:
            raise ConfigError(f"client {key}: finish_time", period, "at least 1 s and finite", "Correct the file.")
    longest = max(periods.values())
    spells = []
    for key, entry in clients.items():
        try:
            begins, ends = (np.asarray(entry.get(name, ()), dtype=np.float64) for name in ("active", "inactive"))
            rows = begins.ndim == ends.ndim == 1
        except (TypeError, ValueError):
            rows = False
        if not rows:
            raise ConfigError(f"client {key}: active and inactive", None, "rows of seconds", "Correct the file.")
        if len(begins) != len(ends):
            allowed = f"as long as inactive, which has {len(ends)}"
            raise ConfigError(f"client {key}: active", f"{len(begins)} seconds", allowed, "Pair them.")
        period = periods[key]
        if longest / period * max(1, len(begins)) > _MOST:
            allowed = f"longer: the longest is {longest:g} s, and the spells would repeat more than {_MOST:g} times"
            remedy = "Correct one of them, or leave the client out."
            raise ConfigError(f"client {key}: finish_time", period, allowed, remedy)
        # FedScale skips empty spells, and spells after finish_time, too.
        kept = (begins != ends) & ~(begins >= period)
        pairs = zip(begins[kept].tolist(), ends[kept].clip(max=period).tolist(), strict=True)
        try:
            own = Availability.from_spells([list(pairs)], period)
        except ConfigError as error:
            raise ConfigError(
                error.key.replace("client 0", f"client {key}", 1), error.value, error.allowed, error.remedy
            ) from None
        starts = np.arange(math.ceil(longest / period))[:, None] * period
        times = np.stack([(starts + own.begins).ravel(), (starts + own.ends).ravel()], axis=1)
        spells.append(_joined(times[times[:, 0] < longest].clip(max=longest)))
    return Availability.from_spells(spells, longest)


def _joined(times: np.ndarray[Any, np.dtype[np.float64]]) -> list[tuple[float, float]]:
    """Join spells that overlap or touch."""
    joined: list[tuple[float, float]] = []
    for begin, end in times.tolist():
        if joined and joined[-1][1] >= begin:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    return joined


def _number(entry: Mapping[str, Any], name: str, client: Any) -> float:
    value = entry.get(name)
    try:
        if isinstance(value, int | float):
            return float(value)
    except OverflowError:
        pass
    raise ConfigError(f"client {client}: {name}", f"{value!s:.40}", "a number that fits a float", "Correct the file.")


def _finite(entry: Mapping[str, Any], name: str, client: Any) -> float:
    value = _number(entry, name, client)
    if not math.isfinite(value):
        raise ConfigError(f"client {client}: {name}", value, "finite", "Correct the file.")
    return value
