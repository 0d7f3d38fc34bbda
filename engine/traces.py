"""Traces of devices in files, as others publish them, and what the run key ``clock`` names.

``clock`` is ``always``, ``bernoulli:SHARE``, ``generated`` (:mod:`aoi_fl.science.habits`) or a file:

changes (.npz)    arrays ``offsets`` (n+1,), ``seconds`` and ``available`` (rows), ``training_seconds`` (n,): client i
                  is ``available[j]`` from ``seconds[j]`` on, j in ``offsets[i]:offsets[i+1]``
FedScale (pickle) its ``client_behave_trace``, its ``client_device_capacity``, or both with a comma between. The first
                  maps a client to ``active`` and ``inactive``, the seconds at which its spells begin and end, and
                  ``finish_time``; the second to ``computation`` (milliseconds of inference an example) and
                  ``communication`` (kbit/s)

A pickle can run any code when it is read: these are read by one that makes numbers, strings, lists and dicts only.
"""

import math
import pickle
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from aoi_fl.science.availability import Availability, always, bernoulli
from aoi_fl.science.devices import DeviceTrace, alike, steady
from aoi_fl.science.errors import ConfigError, did_you_mean
from aoi_fl.science.habits import Habits

ALWAYS, BERNOULLI, GENERATED = "always", "bernoulli", "generated"

_CHANGES = ("offsets", "seconds", "available", "training_seconds")
_TRAINING = 3.0  # of an inference: the backward pass takes two more, as FedScale counts
_KBIT = 1024 / 8  # bytes, as FedScale counts


def make_trace(clock: str, clients: int, seed: int) -> DeviceTrace:
    """Return n devices by the run key ``clock``.

    Raises
    ------
    ConfigError
        The key names nothing, or a file that is missing, has another form, other values or fewer clients than n.
    """
    if clock == ALWAYS:
        return steady(clients)
    if clock == GENERATED:
        return Habits().trace(clients, seed)
    kind, colon, share = clock.partition(":")
    if kind == BERNOULLI and colon:
        try:
            return alike(bernoulli(clients, float(share), seed))
        except ValueError as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"clock is {clock!r}: {share!r} is no number. Give bernoulli:0.3, say.") from None
    paths = [Path(part) for part in clock.split(",")]
    for path in paths:
        if not path.is_file():
            near = did_you_mean(clock, (ALWAYS, f"{BERNOULLI}:0.3", GENERATED))
            raise ConfigError(
                f"clock is {clock!r}: there is no file {path}, and it is neither always, bernoulli:SHARE nor generated."
                f"{near}"
            )
    trace = read_trace(*paths)
    try:
        return trace.first(clients)
    except ConfigError as error:
        raise ConfigError(f"{clock}: {error}") from None


def too_few(trace: DeviceTrace, wanted: float) -> str | None:
    """Return what is to be said where a round wants more clients than are there on average; else None."""
    present = float(trace.availability.shares.sum())
    if wanted <= present:
        return None
    return (
        f"a round wants {wanted:g} clients, and of {trace.clients} there are {present:.1f} on average: rounds will "
        "have fewer. Ask for fewer, or take more clients."
    )


def read_trace(*paths: Path) -> DeviceTrace:
    """Read one file with changes, or one or two of FedScale's.

    Raises
    ------
    ConfigError
        A file has another form, which is named, or a wrong value: file, client, value and remedy.
    """
    path = paths[0]
    try:
        if len(paths) == 1 and zipfile.is_zipfile(path):
            return _changes(path)
        for path in paths:
            if zipfile.is_zipfile(path):
                raise ConfigError("an npz file has all there is of a trace, and goes with no other: leave one out.")
        found: dict[str, Mapping[Any, Any]] = {}
        for path in paths:
            clients = _unpickled(path)
            found[_kind(path, clients)] = clients
        if len(found) < len(paths):
            raise ConfigError("two files of one kind: give one with availability, and one with capacity.")
        return _fedscale(found.get("availability"), found.get("capacity"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _changes(path: Path) -> DeviceTrace:
    try:
        with np.load(path, allow_pickle=False) as file:
            lacking = [name for name in _CHANGES if name not in file]
            if lacking:
                raise ConfigError(
                    f"it has no array {lacking[0]}, only {', '.join(sorted(file)) or 'none'}: a trace in this form has "
                    f"{', '.join(_CHANGES)}."
                )
            offsets, seconds, available, training = (_numbers(name, file[name]) for name in _CHANGES)
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"it is damaged, or holds objects: {error}. Write it anew with numpy.savez.") from None
    clients = len(offsets) - 1
    rows = len(seconds)
    whole = offsets.dtype.kind in "iu"
    offsets = offsets.astype(np.int64)  # differences of unsigned numbers are never negative
    if not whole or clients < 1 or offsets[0] != 0 or offsets[-1] != rows or (np.diff(offsets) < 0).any():
        raise ConfigError(f"offsets must be whole and ascend from 0 to the number of seconds, {rows}: they do not.")
    for name, array, length in (("available", available, rows), ("training_seconds", training, clients)):
        if array.shape != (length,):
            raise ConfigError(f"{name} is of shape {array.shape}: it must be ({length},), as offsets and seconds are.")
    if not np.isfinite(seconds).all():
        j = int(np.argmin(np.isfinite(seconds)))
        client = int(np.searchsorted(offsets, j, side="right")) - 1
        raise ConfigError(f"client {client}: second {seconds[j]:g} is no moment: count from the trace's start.")
    availability = Availability.from_changes(offsets, seconds, available, float(seconds.max(initial=0)))
    free = np.full(clients, np.inf)
    return DeviceTrace(availability, training.astype(np.float64), "training", free, free)


def _numbers(name: str, found: NDArray[Any] | bytes) -> NDArray[Any]:
    array = np.asarray(found)  # a member of the file that is no array comes as bytes
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise ConfigError(f"{name} is of type {array.dtype} and shape {array.shape}: it must be a row of numbers.")
    return array


class _Plain(pickle.Unpickler):
    """Makes numbers, strings, lists, tuples and dicts; whatever else a pickle names is not even imported."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse."""
        raise pickle.UnpicklingError(f"it names {module}.{name}, and may hold numbers and strings only")


def _unpickled(path: Path) -> Mapping[Any, Any]:
    try:
        with path.open("rb") as file:
            found = _Plain(file).load()
    except OSError:
        raise
    except Exception as error:  # of a file that is no pickle, anything
        raise ConfigError(
            f"it is neither an npz file nor a pickle of plain values: {error}. The forms that are read are named in "
            "docs/clock.md."
        ) from None
    if not isinstance(found, dict) or not found or not all(isinstance(entry, dict) for entry in found.values()):
        raise ConfigError(f"it holds a {type(found).__name__}, not one dict for each client: give FedScale's own file.")
    if len({type(client) for client in found}) > 1 or not isinstance(next(iter(found)), int | str):
        kinds = ", ".join(sorted({type(client).__name__ for client in found}))
        raise ConfigError(f"its clients are named by {kinds}, and not all by an int, or all by a str: name them so.")
    return found


def _kind(path: Path, clients: Mapping[Any, Any]) -> str:
    keys = next(iter(clients.values())).keys()
    if {"active", "inactive", "finish_time"} <= keys:
        return "availability"
    if {"computation", "communication"} <= keys:
        return "capacity"
    raise ConfigError(
        f"{path} gives each client {', '.join(map(str, keys))}, neither active, inactive and finish_time "
        "(availability) nor computation and communication (capacity)."
    )


def _fedscale(presence: Mapping[Any, Any] | None, capacity: Mapping[Any, Any] | None) -> DeviceTrace:
    """Return the devices of both files, in the order of their own numbers; as many as the shorter one has."""
    count = min(len(found) for found in (presence, capacity) if found is not None)
    if presence is None:
        availability = always(count)
    else:
        availability = _spells({key: presence[key] for key in sorted(presence)[:count]})
    if capacity is None:
        return alike(availability)
    who = sorted(capacity)[:count]
    for name in ("computation", "communication"):
        for key in who:
            if not math.isfinite(_number(capacity[key], name, key)):
                raise ConfigError(f"client {key}: {name} is {capacity[key][name]}: it must be finite.")
    inference = np.array([_number(capacity[key], "computation", key) for key in who])
    kilobits = np.array([_number(capacity[key], "communication", key) for key in who])
    loading = kilobits * _KBIT
    return DeviceTrace(availability, _TRAINING * inference / 1000, "example", loading, loading)


def _spells(clients: Mapping[Any, Any]) -> Availability:
    """Return FedScale's spells; a client whose period is shorter than the longest goes through it again and again."""
    periods = {key: _number(entry, "finish_time", key) for key, entry in clients.items()}
    for key, period in periods.items():
        if not 1 <= period < math.inf:
            raise ConfigError(f"client {key}: finish_time is {period:g} s: it must be at least 1, and finite.")
    longest = max(periods.values())
    spells = []
    for key, entry in clients.items():
        try:
            begins, ends = (np.asarray(entry.get(name, ()), dtype=np.float64) for name in ("active", "inactive"))
        except (TypeError, ValueError):
            raise ConfigError(f"client {key}: active and inactive must be rows of seconds, and one is not.") from None
        if begins.ndim != 1 or ends.ndim != 1:
            raise ConfigError(f"client {key}: active and inactive must be rows of seconds, and one is not.")
        if len(begins) != len(ends):
            raise ConfigError(f"client {key}: active has {len(begins)} seconds, inactive {len(ends)}: pair them.")
        period = periods[key]
        # What is empty, or lies after finish_time, FedScale does not play either.
        played = (begins != ends) & ~(begins >= period)
        pairs = zip(begins[played].tolist(), ends[played].clip(max=period).tolist(), strict=True)
        try:
            own = Availability.from_spells([list(pairs)], period)
        except ConfigError as error:
            raise ConfigError(str(error).replace("client 0", f"client {key}", 1)) from None
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
    raise ConfigError(f"client {client}: {name} is {value!r:.40}, not a number that a float can hold.")
