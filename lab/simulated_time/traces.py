"""Read the traces of devices that the run key ``clock`` names.

``clock`` is ``always``, ``bernoulli:SHARE``, ``generated`` (:func:`phones`) or a file.

A file (.npz) has arrays ``offsets`` (n+1,), ``seconds`` and ``available`` (rows), ``training_seconds`` (n,): client i
is ``available[j]`` from ``seconds[j]`` on, j in ``offsets[i]:offsets[i+1]``. It may have ``download`` and ``upload``
(n,), bytes a second.
"""

from pathlib import Path

import numpy as np

from aoi_fl.config.keys import over_selected
from aoi_fl.config.policies import users_of
from aoi_fl.lab.simulated_time.availability import Availability, always, bernoulli, refuse
from aoi_fl.lab.simulated_time.devices import DeviceTrace, without_loading
from aoi_fl.lab.simulated_time.phone_availability import phones
from aoi_fl.learning import archive
from aoi_fl.protocol.files import is_file
from aoi_fl.science import draws
from aoi_fl.science.errors import ConfigError, did_you_mean
from aoi_fl.science.types import AnyArray

ALWAYS, BERNOULLI, GENERATED = "always", "bernoulli", "generated"

_MOSTLY = 0.9  # share of time
_CHANGES = ("offsets", "seconds", "available", "training_seconds")
_BANDWIDTHS = ("download", "upload")  # a file may leave them out


def in_files(clock: str) -> bool:
    """Return whether a clock is read from a file; other clocks are generated."""
    return clock not in (ALWAYS, GENERATED) and not clock.startswith(f"{BERNOULLI}:")


def _file(clock: str) -> Path:
    """Return the file that a clock names; raise ConfigError for a missing one."""
    path = Path(clock)
    if not is_file(path):
        near = did_you_mean(clock, (ALWAYS, f"{BERNOULLI}:0.3", GENERATED))
        allowed = "always, bernoulli:SHARE, generated, or a file that exists"
        raise ConfigError("clock", clock, allowed, near.strip() or f"There is no file {path}.")
    return path


def make_trace(clock: str, clients: int, seed: int) -> DeviceTrace:
    """Return n devices by the run key ``clock``.

    Raises
    ------
    ConfigError : the key is no clock. Or its file is missing, has another format, a wrong value or fewer clients than
        n.
    """
    if clock == ALWAYS:
        return without_loading(always(clients))
    if clock == GENERATED:
        return phones(clients, seed)
    kind, colon, share = clock.partition(":")
    if kind == BERNOULLI and colon:
        try:
            available = float(share)
        except ValueError:
            raise ConfigError(
                "clock", clock, "bernoulli:SHARE with a number", "Write for instance bernoulli:0.3."
            ) from None
        return without_loading(bernoulli(clients, available, seed))
    trace = read_trace(_file(clock))
    try:
        return trace.first(clients)
    except ConfigError as error:
        raise error.within(clock) from None


def drawn_start(clock: str, seed: int) -> float:
    """Return a run's first second of a trace: a random whole hour, or 0 without a file."""
    if not in_files(clock):
        return 0.0
    hours = read_trace(_file(clock)).availability.period / 3600.0
    return 3600.0 * int(draws.uniform(seed, 0, "clock-start", 0) * hours)


def too_few(trace: DeviceTrace, per_round: int, over_selection: float = 1.0) -> str | None:
    """Return a warning if a round selects more clients than are available on average, else None."""
    wanted, present = over_selected(per_round, over_selection), float(trace.availability.shares.sum())
    if wanted <= present:
        return None
    factor = f" ({per_round} times over-selection {over_selection:g})" if over_selection > 1 else ""
    return (
        f"A round selects {wanted} clients, but only {present:.1f} of {trace.clients} are available on average, so "
        f"rounds will have fewer. Lower clients-per-round{factor}, or take more clients."
    )


def too_few_decide(trace: DeviceTrace, wanted: int) -> str | None:
    """Return a warning if unavailable clients will reduce the number that take part, else None.

    All clients have the same rate. A client that is unavailable for longer than its waits takes part at its rate times
    its availability. A client that returns sooner recovers a part of the missed rounds.
    """
    share = float(trace.availability.shares.mean())
    if share > _MOSTLY:
        return None
    return (
        f"Clients decide as if they were always available, but are available for {100 * share:.1f} % of the time on "
        f"average. Where they are unavailable for many rounds, about {wanted * share:.1f} of {wanted} will take part "
        f"in a round. compensate=availability ({', '.join(users_of('compensate'))}) corrects this where it can."
    )


def read_trace(path: Path) -> DeviceTrace:
    """Read a file with changes.

    Raises
    ------
    ConfigError : the file has another format or a wrong value; the error names file, client, value and remedy.
    """
    try:
        return _changes(path)
    except OSError as error:
        raise ConfigError("clock", path, f"readable ({error})", "Check the path and its permissions.") from error
    except ConfigError as error:
        raise error.within(path) from None


def _changes(path: Path) -> DeviceTrace:
    try:
        arrays, names = archive.read(path, (*_CHANGES, *_BANDWIDTHS))
    except archive.Unreadable as error:
        where = f"{error.name}: " * bool(error.name)
        allowed = f"numbers in an undamaged npz file ({where}{error})"
        raise ConfigError("content", None, allowed, "docs/clock.md has the format; numpy.savez writes it.") from None
    lacking = [name for name in _CHANGES if name not in names]
    if lacking:
        allowed = f"{', '.join(_CHANGES)}; {lacking[0]} is missing"
        raise ConfigError("arrays", ", ".join(sorted(names)) or "none", allowed, "Write the missing array.")
    offsets, seconds, available, training = (_numbers(name, arrays[name]) for name in _CHANGES)
    clients = len(offsets) - 1
    rows = len(seconds)
    whole = offsets.dtype.kind in "iu"
    offsets = offsets.astype(np.int64)  # differences of unsigned numbers are never negative
    if not whole or clients < 1 or offsets[0] != 0 or offsets[-1] != rows or (np.diff(offsets) < 0).any():
        raise ConfigError(
            "offsets", None, f"whole numbers that ascend from 0 to the number of seconds, {rows}", "Correct the file."
        )
    free = np.full(clients, np.inf)
    download, upload = (_numbers(name, arrays.get(name, free)) for name in _BANDWIDTHS)
    of_clients = {"training_seconds": training, "download": download, "upload": upload}
    for name, array in {"available": available, **of_clients}.items():
        length = clients if name in of_clients else rows
        if array.shape != (length,):
            allowed = f"of shape ({length},), as offsets and seconds imply"
            raise ConfigError(name, f"of shape {array.shape}", allowed, "Correct the file.")
    client = np.repeat(np.arange(clients), np.diff(offsets))
    refuse(~np.isin(available, (0, 1)), client, "available", available, "1 (available) or 0")
    lasts = float(seconds.max(initial=0))
    if lasts == 0:
        allowed = "above 0, because it is the trace's length"
        raise ConfigError("largest second", 0, allowed, "Add a last change at the end of the trace, or use always.")
    availability = Availability.from_changes(offsets, seconds, available, lasts)
    return DeviceTrace(availability, training.astype(np.float64), "training", download, upload)


def _numbers(name: str, array: AnyArray) -> AnyArray:
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise ConfigError(name, f"{array.dtype} of shape {array.shape}", "a row of numbers", "Correct the file.")
    return array
