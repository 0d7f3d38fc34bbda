"""FedScale's own files, which describe devices: pickles with a dict for each client.

A pickle can run any code when it is read: these are read by one that makes numbers, strings, lists and dicts only.
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
_SHOWN = 20  # bytes of a file that is no pickle
_MOST = 1e6  # spells of a client that goes through its own again and again


class _Plain(pickle.Unpickler):
    """Makes numbers, strings, lists, tuples and dicts; whatever else a pickle names is not even imported."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse."""
        raise pickle.UnpicklingError(f"it names {module}.{name}, and may hold numbers and strings only")


def unpickled(path: Path) -> Mapping[Any, Any]:
    """Return what a file holds: a dict for each client, by number.

    Raises
    ------
    ConfigError : it holds anything else.
    """
    try:
        with path.open("rb") as file:
            begins = file.read(_SHOWN)
            file.seek(0)
            found = _Plain(file).load()
    except OSError:
        raise
    except Exception as error:  # of a file that is no pickle, anything
        why = error if begins[:1] == pickle.PROTO else f"it begins with {begins!r}"
        allowed = f"an npz file or a pickle of plain values ({why})"
        raise ConfigError("content", None, allowed, "See docs/clock.md for the file formats.") from None
    if not isinstance(found, dict) or not found or not all(isinstance(entry, dict) for entry in found.values()):
        raise ConfigError("content", type(found).__name__, "one dict for each client", "Use FedScale's own file.")
    if kinds := ", ".join(sorted({type(client).__name__ for client in found} - {"int"})):
        raise ConfigError("client names", kinds, "all int", "Number the clients.")
    return found


def kind(clients: Mapping[Any, Any]) -> str:
    """Return what a file is about, ``availability`` or ``capacity``; raises ConfigError where it is neither."""
    keys = next(iter(clients.values())).keys()
    if {"active", "inactive", "finish_time"} <= keys:
        return "availability"
    if {"computation", "communication"} <= keys:
        return "capacity"
    allowed = "active, inactive and finish_time (availability), or computation and communication (capacity)"
    raise ConfigError("columns", ", ".join(map(str, keys)), allowed, "Use FedScale's own file.")


def devices(presence: Mapping[Any, Any] | None, capacity: Mapping[Any, Any] | None) -> DeviceTrace:
    """Return the devices of both files, in the order of their own numbers; as many as the shorter one has."""
    count = min(len(found) for found in (presence, capacity) if found is not None)
    if presence is None:
        availability = always(count)
    else:
        availability = _spells({key: presence[key] for key in sorted(presence)[:count]})
    if capacity is None:
        return replace(alike(availability), untold="speed")
    who = sorted(capacity)[:count]
    inference = np.array([_finite(capacity[key], "computation", key) for key in who])
    kilobits = np.array([_finite(capacity[key], "communication", key) for key in who])
    loading = kilobits * _KBIT
    untold = "availability" if presence is None else ""
    return DeviceTrace(availability, _TRAINING * inference / 1000, "example", loading, loading, untold)


def _spells(clients: Mapping[Any, Any]) -> Availability:
    """Return FedScale's spells; a client whose period is shorter than the longest goes through it again and again."""
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
        # What is empty, or lies after finish_time, FedScale does not play either.
        played = (begins != ends) & ~(begins >= period)
        pairs = zip(begins[played].tolist(), ends[played].clip(max=period).tolist(), strict=True)
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
    """Return spells of which none begins where the one before ends."""
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
