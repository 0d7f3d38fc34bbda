"""The durable state of the owner's gate, and its receipts: one file of each for a device.

``gate.json`` has the number of trainings in all, the time of the last one, the runs and the apps. ``receipts.jsonl``
has a line for each message on data, with the digest of the line before and a signature. The state has the digest of a
line. So an edited file is noticed.
A receipt is also the write-ahead record of the state: it is on the disk before its update leaves, with one wait. The
state follows after some receipts, and its reader adds those that it lacks. ``gate.lock`` names the last receipt. It is
written after it and without a wait, so a power cut leaves it behind. If it is ahead, receipts were cut. A SuperNode
keeps the state, and reads the files again when another process has changed one.
If the state is lost, the receipts have the number of trainings, and the time since the last one counts from now.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from aoi_fl.client.gate.limits import Refusal
from aoi_fl.client.gate.rules import STATE
from aoi_fl.client.state import Durable, lock, typed
from aoi_fl.protocol.files import read_regular, regular

GATE, RECEIPTS, LOCK = "gate.json", "receipts.jsonl", "gate.lock"
_MOST = 1000  # runs that have not trained, and apps that are not approved
_TAIL = 1 << 16  # bytes of the last receipts; each has less than a thousand
_BEHIND = 32  # receipts that the state may lack
RESTORE = f"Restore the files. Without {GATE} the gate counts hours from now, and updates from the receipts."
ROOM = "Make room on that disk, or repair the folder. Until then no update leaves."
_PATIENCE = 10.0  # seconds to wait for another process
_HOUR = 3600.0  # seconds within which equal receipts are counted together
_GROUPS = 16  # of equal receipts in that time; of more, those with one decision and rule are equal
R = TypeVar("R")
Sign = Callable[[bytes], str]


@dataclass(frozen=True)
class KnownRun:
    """A run at the gate; rounds and updates are those of trainings, times are in seconds since 1970."""

    name: str  # in our record, or ""
    server: str
    app: str
    since: int  # the round before the first message
    last: int = 0  # round; 0: none
    updates: int = 0
    at: float = 0.0  # time of the last training; 0: none


@dataclass(frozen=True)
class KnownApp:
    """An app that asked: the time, its run, and whether the owner has approved it."""

    asked: float
    run: str
    approved: bool = False


@dataclass(frozen=True)
class GateState:
    """What the gate remembers; times are in seconds since 1970."""

    updates: int = 0  # trainings in all runs
    last: float = 0.0  # time from which min-hours counts; 0: no training yet
    latest: float = 0.0  # the latest time seen
    lines: int = 0  # receipts
    head: str = ""  # digest of the last receipt
    told: int = 0  # numbers in evaluations since the last training
    repeats: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # receipts that are counted
    runs: Mapping[str, KnownRun] = field(default_factory=dict)  # by Flower's id
    apps: Mapping[str, KnownApp] = field(default_factory=dict)  # by digest


class Book:
    """The gate's files in the owner's folder of states.

    Parameters
    ----------
    folder : the folder, created if missing
    sign : returns the signature of bytes, or "" without a key

    Raises
    ------
    Refusal : by each method, if a file cannot be read or written, files do not fit each other, or too many runs train.
    """

    def __init__(self, folder: Path, sign: Sign = lambda data: "") -> None:
        self._file = Durable(folder / GATE, _decode)
        self.folder, self.receipts, self._lock, self._sign = folder, folder / RECEIPTS, folder / LOCK, sign
        self._known: tuple[GateState, Any] | None = None  # the state, and the marks of its files
        self._end = 0  # of the last complete receipt, in bytes

    def load(self) -> GateState:
        """Return the state, completed by the receipts that it lacks."""
        try:
            marks = self._marks()
            if self._known is not None and self._known[1] == marks:
                return self._known[0]
            state = self._file.read()
            number, digest = self._last()  # before the receipts, to which a SuperNode may append meanwhile
            receipts, folder = self._tail(), self.folder
            digests = [hashlib.sha256(line).hexdigest() for line in receipts]
            entries = [json.loads(line) for line in receipts]
            if any(entry["before"] != digest for digest, entry in zip(digests, entries[1:], strict=False)):
                raise ValueError(f"a line of {self.receipts} does not follow the line before it")
            if state is None:
                used = self._known is not None or any(folder.glob("*.promises")) or any(folder.glob("*/*.json"))
                if not (receipts or number or used):
                    return GateState()
                at = time.time()
                last = entries[-1] if entries else {"line": 0, "updates": 0}
                state = GateState(last["updates"], at, at, last["line"], digests[-1] if digests else "")
            elif state.lines > 0 == number:
                raise ValueError(f"{self._lock} names no receipt")
            if state.lines and state.head not in digests:
                raise ValueError(f"the receipts in {self.receipts} are not those of the state")
            first = digests.index(state.head) + 1 if state.lines else 0
            place = first + number - state.lines  # of the lock's receipt; a power cut leaves the lock behind
            if number >= max(1, state.lines) and digests[place - 1 : place] != [digest]:
                raise ValueError(f"{self._lock} names another receipt than the last one in {self.receipts}")
            for digest, entry in zip(digests[first:], entries[first:], strict=True):
                state = _replayed(state, digest, entry)
            self._known = state, marks
            return state
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise Refusal(STATE, f"{self._file.path}: {error}", RESTORE) from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of both files."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._held = lock(self._lock, _PATIENCE)
        except OSError as error:
            raise Refusal(STATE, f"{self._lock}: {error.strerror}", ROOM) from error
        with self._held:
            yield

    def save(self, state: GateState, *, at_once: bool = True) -> None:
        """Write the state; the caller holds the lock. Unless ``at_once``, a power cut may bring an earlier one back."""
        runs, apps = _pruned(state.runs, lambda run: run.updates > 0), _pruned(state.apps, lambda app: app.approved)
        state = replace(state, runs=runs, apps=apps)
        try:
            self._name_last(state)
            if at_once:
                os.fsync(self._held.fileno())
            self._file.save(state, at_once=at_once)
        except (OSError, ValueError) as error:
            raise Refusal(STATE, f"{self._file.path}: {error}", ROOM) from error
        self._known = state, self._marks()

    def count(self, state: GateState, entry: Mapping[str, Any]) -> None:
        """Append a receipt, unless it repeats one of the last hour: then count it, for one line when the hour ends.

        The round, the size and the time may differ. The caller holds the lock.
        """
        key = " ".join(str(entry[name]) for name in ("decision", "rule", "server", "run", "app", "kind"))
        if key not in state.repeats and len(state.repeats) >= _GROUPS:
            key = f"{entry['decision']} {entry['rule']}"
        if (former := state.repeats.get(key)) is None:
            state, former = self.note(state, entry), {"since": entry["since"], "times": -1}
        repeat = {**entry, "since": former["since"], "times": former["times"] + 1}
        self.save(replace(state, repeats={**state.repeats, key: repeat}), at_once=False)

    def flushed(self, state: GateState, now: float) -> GateState:
        """Append the receipts that were counted, if their hour has ended. The caller holds the lock."""
        for key, entry in state.repeats.items():
            if not 0 <= now - entry["since"] < _HOUR:
                state = replace(state, repeats={k: e for k, e in state.repeats.items() if k != key})
                if entry["times"]:
                    state = self.note(state, entry)
        return state

    def note(self, state: GateState, entry: Mapping[str, Any]) -> GateState:
        """Append a receipt and wait for the disk; return the state with the receipt. The caller holds the lock."""
        body = {"line": state.lines + 1, **entry, "updates": state.updates, "before": state.head}
        body["signature"] = self._sign(signed(body))
        line = json.dumps(body, sort_keys=True).encode()
        try:
            with open(regular(self.receipts, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
                file.seek(self._end)
                file.truncate()  # a power cut may have left a part of a line
                file.write(line + b"\n")
                file.flush()
                os.fsync(file.fileno())
                self._end = file.tell()
            state = replace(state, lines=state.lines + 1, head=hashlib.sha256(line).hexdigest())
            self._name_last(state)
        except OSError as error:
            raise Refusal(STATE, f"{self.receipts}: {error.strerror}", ROOM) from error
        self._known = state, self._marks()
        if state.lines % _BEHIND == 1:  # the first also syncs the folder's names
            self.save(state)
        return state

    def _name_last(self, state: GateState) -> None:
        os.pwrite(self._held.fileno(), f"{state.lines:019d} {state.head:-<64}".encode(), 0)

    def _last(self) -> tuple[int, str]:
        """Return the number and the digest of the last receipt by the lock's file; 0 and "" without one."""
        try:
            number, last = read_regular(self._lock).decode().split() or ("0", "")
        except FileNotFoundError:
            return 0, ""
        return int(number), last

    def _tail(self) -> list[bytes]:
        """Return the last complete receipts."""
        self._end = 0
        try:
            with open(self.receipts, "rb", opener=regular) as file:
                start = max(0, file.seek(0, os.SEEK_END) - _TAIL)
                file.seek(start)
                *receipts, rest = file.read().split(b"\n")
                self._end = file.tell() - len(rest)
                return receipts[1 if start else 0 :]
        except FileNotFoundError:
            return []

    def _marks(self) -> list[Any]:
        """Return what changes with the files, but for the times of access."""
        paths = (path for path in (self._file.path, self.receipts, self._lock) if path.exists())
        return [(about.st_ino, about.st_size, about.st_ctime_ns) for about in map(os.stat, paths)]


def _pruned(records: Mapping[str, R], keeps: Callable[[R], bool]) -> Mapping[str, R]:
    """Return the records without the oldest that a server could add without end."""
    spare = [key for key, record in records.items() if not keeps(record)][:-_MOST]
    if len(records) - len(spare) > 10 * _MOST:
        raise Refusal(STATE, f"the gate keeps at most {10 * _MOST} runs")
    return {key: record for key, record in records.items() if key not in spare} if spare else records


def trained(state: GateState, key: str, run: KnownRun, round_: int | None, at: float) -> GateState:
    """Return the state after a training in a round and at a time."""
    run = replace(run, last=max(run.last, round_ or 0), updates=run.updates + 1, at=at)
    state = replace(state, updates=state.updates + 1, told=0, last=max(at, state.last), latest=max(at, state.latest))
    return replace(state, runs={**state.runs, key: run})


def _replayed(state: GateState, line: str, entry: Mapping[str, Any]) -> GateState:
    """Return the state after a receipt that a power cut separated from it."""
    if entry["before"] != state.head or entry["line"] != state.lines + 1:
        raise ValueError(f"receipt {state.lines + 1} does not follow the one before it")
    if entry["updates"] > state.updates:
        run = state.runs.get(entry["run"]) or KnownRun("", entry["server"], entry["app"], 0)
        state = trained(state, entry["run"], replace(run, app=entry["app"]), entry["round"], entry["time"])
    else:
        state = replace(state, told=state.told + entry.get("numbers", 0))
    repeats = {key: repeat for key, repeat in state.repeats.items() if repeat["since"] != entry["since"]}
    return replace(state, lines=entry["line"], head=line, repeats=repeats)


def signed(body: Mapping[str, Any]) -> bytes:
    """Return the bytes of a receipt that are signed."""
    return json.dumps({k: v for k, v in body.items() if k != "signature"}, sort_keys=True).encode()


def _decode(body: dict[str, Any]) -> GateState:
    runs = {str(key): typed(KnownRun(**run), 0) for key, run in body["runs"].items()}
    apps = {str(key): typed(KnownApp(**app), 0) for key, app in body["apps"].items()}
    known = {key: body[key] for key in GateState.__annotations__}
    return typed(GateState(**known | {"runs": runs, "apps": apps}), 0)
