"""The durable state of a client: a file that survives kill -9 and power cuts.

There is one JSON file for each run and client name, with a version and a checksum. It is written to a temporary file,
synced and renamed. It stores round numbers, not counters, so a lost or repeated message cannot corrupt an age.

SQLite would be slower for a client with its own process. To save a state it waits for the disk four times with a
rollback journal, five times with a write-ahead log; this module waits twice (docs/benchmarks.md).
"""

import fcntl
import hashlib
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from io import FileIO
from pathlib import Path
from types import UnionType
from typing import Any, Generic, TypeVar, cast, get_args, get_origin

from aoi_fl.protocol import MAX_AGE
from aoi_fl.protocol.files import read_regular, regular, sync
from aoi_fl.protocol.log import logger
from aoi_fl.science.age import ClientAge
from aoi_fl.science.errors import NAMES, ConfigError, refusing

VERSION = 1
_FEW = 64  # files that are synced one by one
_LOOK = 0.01  # seconds between two tries to lock
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
R = TypeVar("R")
S = TypeVar("S")


@dataclass(frozen=True)
class ClientState:
    """A client's state in one run.

    Attributes
    ----------
    seed : the key of the client's draws, fixed when the state is created
    age : the participation clock; None before the first message of an age policy
    data : the clock of the data set, where ``last`` is the round of the last refresh; None before the first refresh
    turn : the number of the last participation of a systematic client (:class:`aoi_fl.science.strides.ClientStride`)
    token : the run's token, if any; a state with another token belongs to an earlier run of the same name
    """

    seed: int
    age: ClientAge | None = None
    data: ClientAge | None = None
    turn: int | None = None
    token: str | None = None


class Durable(Generic[S]):
    """A record on disk, as one JSON object with a version and a checksum.

    Parameters
    ----------
    path : the file; its folder is created at the first write
    decode : makes the record of the JSON object, or raises ValueError, KeyError or TypeError
    """

    def __init__(self, path: Path, decode: Callable[[dict[str, Any]], S]) -> None:
        self.path, self._decode = path, decode

    def read(self) -> S | None:
        """Return the stored record, or None without a file.

        Raises
        ------
        ConfigError : the file cannot be read.
        ValueError : the file is corrupt.
        """
        if _held is not None and (state := _held.states.get(self.path)) is not None:
            return cast(S, state)
        with refusing(OSError, "state-dir", self.path, "readable", "Check this file."):
            try:
                blob = read_regular(self.path)
            except FileNotFoundError:
                return None
        try:
            return self._decode(_opened(blob))
        except (KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error

    def save(self, record: S, *, at_once: bool = True) -> None:
        """Write the record atomically: after any failure the old or the new one is complete.

        Unless ``at_once``, a power cut soon afterwards may leave the old one, for one wait for the disk instead of two.
        Raises ValueError if the record could not be read back, and ConfigError if it cannot be written.
        """
        if self._decode(asdict(cast(Any, record))) != record:
            raise ValueError(f"{self.path.name} would not be read as it is written")
        if _held is None:
            _write({self.path: record}, {}, folders=at_once)
        else:
            _held.states[self.path] = _held.changed[self.path] = record


class StateFile(Durable[ClientState]):
    """The state of one client in one run, on disk.

    Parameters
    ----------
    folder : folder with one file per client; created at the first write
    name : the client's name, and the file's

    Attributes
    ----------
    corrupt : whether the last load has found a corrupt file
    """

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder / f"{name}.json", _decode)
        self.corrupt = False

    def load(self, seed: int) -> ClientState:
        """Return the stored state, or a fresh one under ``seed``.

        A corrupt file is renamed, with a warning. The client then starts again; under an age policy it draws an age
        from the stationary law.
        """
        self.corrupt = False
        try:
            return self.read() or ClientState(seed)
        except ConfigError:
            raise
        except ValueError as error:
            self.corrupt = True
            asides = (self.path.with_suffix(f".corrupt-{i}") for i in range(1, 10**6))
            aside = next(path for path in asides if not path.exists())
            os.replace(self.path, aside)
            logger.warning(
                "The client state %s is corrupt (%s). It is kept as %s, and this client starts again.",
                self.path,
                error,
                aside.name,
            )
            return ClientState(seed)


def lock(path: Path, patience: float) -> FileIO:
    """Open or create a file and lock it; its end is the end of the lock.

    Parameters
    ----------
    path : the file, in a folder that exists
    patience : seconds to wait for another process

    Raises
    ------
    BlockingIOError : another process holds the lock.
    OSError : the file cannot be opened, or is not a regular file.
    """
    until = time.monotonic() + patience
    file = FileIO(regular(path, os.O_RDWR | os.O_CREAT, 0o600), "r+")
    try:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return file
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise
            time.sleep(_LOOK)
    except BaseException:
        file.close()
        raise


def keep(path: Path, blob: bytes) -> None:
    """Write another file of a client's state with the guarantees of :meth:`StateFile.save`."""
    asides = {} if _held is None else _held.asides
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_aside(path, blob, asides)
    except OSError as error:
        raise _unwritable(path, error) from error
    if _held is None:
        _write({}, asides)


def kept(folder: Path) -> dict[Path, Path]:
    """Return a folder's files with their present paths; files that wait for a rename lie aside."""
    waiting = {} if _held is None else {p: aside for p, aside in _held.asides.items() if p.parent == folder}
    there = set(folder.iterdir()) - set(waiting.values()) if folder.is_dir() else set()
    return {path: path for path in there} | waiting


@dataclass
class _Held:
    """In memory: all saved states, the states not yet on disk, and files that wait for a rename."""

    states: dict[Path, Any] = field(default_factory=dict)
    changed: dict[Path, Any] = field(default_factory=dict)
    asides: dict[Path, Path] = field(default_factory=dict)


_held: _Held | None = None


@contextmanager
def written_together(*, alone: bool = True) -> Iterator[Callable[[], None]]:
    """Keep all clients' states of this process in memory, and write the changed ones on request.

    Yields the function that writes them, with one wait for the disk instead of one for each client. Then the states are
    as safe as after :meth:`StateFile.save`. A server calls it before it records a round. If the process ends earlier,
    the round does not count and runs again.

    If this process is not ``alone``, other processes may change a written state, so written states are dropped from
    memory.
    """
    global _held
    held = _held = _Held()
    # In parallel, because a disk can complete many writes at once.
    with ThreadPoolExecutor(_FEW // 4) as pool:

        def write() -> None:
            if held.changed or held.asides:
                _write(held.changed, held.asides, pool.map)
                held.changed, held.asides = {}, {}
            if not alone:
                held.states = {}

        try:
            yield write
        finally:
            _held = None
            _remove(held.asides)


def _write(
    states: Mapping[Path, Any], asides: dict[Path, Path], each: Callable[..., Iterable[Any]] = map, folders: bool = True
) -> None:
    """Write states to temporary files, sync and rename these and ``asides``, sync their folders."""
    path = next(iter([*states, *asides]))  # the path in the error if the folder cannot be created
    try:
        for folder in {path.parent for path in states}:
            folder.mkdir(parents=True, exist_ok=True)
        for path, state in states.items():
            body = {"version": VERSION, **asdict(state)}
            _write_aside(path, json.dumps({**body, "checksum": _checksum(body)}).encode(), asides)
        # With many files, to sync the whole system is faster; outside Linux, sync() may return too early.
        if len(asides) > _FEW and sys.platform == "linux":
            os.sync()
        else:
            list(each(sync, asides.values()))
        for path, aside in asides.items():
            os.replace(aside, path)
        for folder in {path.parent for path in asides if folders}:
            sync(folder)
    except OSError as error:
        _remove(asides)
        raise _unwritable(path, error) from error


def _write_aside(path: Path, blob: bytes, asides: dict[Path, Path]) -> None:
    asides[path] = path.with_name(f"{path.name}.tmp")  # of a killed process the next one writes over it
    asides[path].write_bytes(blob)


def _remove(asides: Mapping[Path, Path]) -> None:
    for aside in asides.values():
        with suppress(OSError):
            aside.unlink(missing_ok=True)


def _unwritable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        "state-dir", path, f"a folder that this client can write ({error})", "Set state-dir to a folder with room left."
    )


def checked_name(what: str, name: str) -> str:
    """Return a name if it is safe as a file name, else raise ConfigError."""
    if not _SAFE.fullmatch(name):
        raise ConfigError(what, name, NAMES, "Choose such a name: it names a file.")
    return name


def _opened(blob: bytes) -> dict[str, Any]:
    """Return the checked JSON object of a file without its version and checksum."""
    body = json.loads(blob)
    if not isinstance(body, dict):
        raise ValueError("it holds no object")
    if body.get("version") != VERSION:
        raise ValueError(f"version {body.get('version')!r}, this program writes {VERSION}")
    if body.pop("checksum", None) != _checksum(body):
        raise ValueError("its checksum does not match")
    return body


def _decode(body: dict[str, Any]) -> ClientState:
    ages = (-MAX_AGE, MAX_AGE)
    clocks = {key: None if body[key] is None else typed(ClientAge(**body[key]), *ages) for key in ("age", "data")}
    return typed(ClientState(seed=body["seed"], turn=body.get("turn"), token=body.get("token"), **clocks))


def typed(record: R, least: float = -math.inf, most: float = math.inf) -> R:
    """Return a record whose fields are of their types, with numbers from ``least`` to ``most``, or raise ValueError."""
    for name, hint in type(record).__annotations__.items():
        value = getattr(record, name)
        kinds = get_args(hint) if isinstance(hint, UnionType) else (get_origin(hint) or hint,)
        whole = type(value) is int and float in kinds
        of_kind = whole or any(type(value) is kind or (kind is Mapping and isinstance(value, dict)) for kind in kinds)
        if not of_kind or (isinstance(value, int | float) and not least <= value <= most):
            raise ValueError(f"{name} is {value!r:.40}")
    return record


def _checksum(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
