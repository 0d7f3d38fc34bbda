"""The durable state of a device: the promises of its client in all runs, in one file.

The promises of a run are kept by its name, apart from the client's age. So another token, a lost age or a restart does
not end them. A corrupt file is never replaced: it forbids every training until the owner has looked at it.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aoi_fl import protocol
from aoi_fl.client.gate.book import GATE, Book
from aoi_fl.client.gate.gate import Arrival, Gate
from aoi_fl.client.gate.limits import Refusal
from aoi_fl.client.gate.rules import KEYS, STATE, Value
from aoi_fl.client.state import Durable, checked_name, lock, typed
from aoi_fl.protocol import MAX_AGE, ParticipationRequest
from aoi_fl.science.age import ClientAge
from aoi_fl.science.errors import ConfigError, refusing

if TYPE_CHECKING:
    from aoi_fl.client.identity import Identity

_MOST_RUNS = 10_000  # runs with a promise
_PATIENCE = 10.0  # seconds to wait for another process of this client
SUFFIX = ".promises"


class Forbidden(ConfigError):
    """The device refuses a message; the client's reply is an error, and no function of the app runs."""


@dataclass(frozen=True)
class Promise:
    """The terms that a client keeps in one run, whatever the server sends later.

    Attributes
    ----------
    separation : b, the least number of rounds between two participations
    rounds : T, the last round in which it takes part; None: unknown
    since : the round before the client's first message; the client may have taken part in it and lost its state
    last : the last round in which it took part; 0: none
    clear : whether it may evaluate models, whose metrics have no noise
    mu, delta : the least noise that the server has announced; None: none
    """

    separation: int
    rounds: int | None
    since: int
    last: int = 0
    clear: bool = True
    mu: float | None = None
    delta: float | None = None

    def forbids(self, round_: int, *, repeats: bool = False) -> bool:
        """Return whether a participation is too early, or before or after the run.

        With ``repeats`` the round of the last participation is allowed again.

        >>> [Promise(3, 9, 0, last=4).forbids(t) for t in (0, 2, 4, 6, 7, 10)]
        [True, True, True, True, False, True]
        """
        latest = max(self.last, self.since)
        too_soon = latest >= 1 and round_ - latest < self.separation and not (repeats and round_ == self.last)
        return round_ < 1 or too_soon or (self.rounds is not None and round_ > self.rounds)


@dataclass(frozen=True)
class DeviceState:
    """What a device remembers over all runs: the promise of each run, by the run's name."""

    runs: Mapping[str, Promise] = field(default_factory=dict)


_known: dict[Path, DeviceState] = {}  # what this process has written; a file that vanishes later is lost


class Device(Durable[DeviceState]):
    """The device state of one client, with its locks.

    Parameters
    ----------
    folder : the owner's folder of states; for a simulated client the run's
    name : the client's name
    durable : whether the folder is the owner's; a simulated client needs no lock
    """

    def __init__(self, folder: Path, name: str, *, durable: bool) -> None:
        super().__init__(folder / f"{checked_name('client name', name)}{SUFFIX}", _decode)
        self._durable = durable

    def load(self) -> DeviceState:
        """Return the device's state.

        Raises
        ------
        Forbidden : the file cannot be read or is corrupt.
        """
        try:
            state = self.read()
        except ValueError as error:
            remedy = "The client trains no more with it. Restore the file, or remove it if all its runs have ended."
            raise Forbidden("state-dir", self.path, f"a readable file of promises ({error})", remedy) from error
        return state or _known.get(self.path, DeviceState())

    def keep(self, run: str, promise: Promise) -> None:
        """Write the promise of one run.

        Raises
        ------
        Forbidden : the device has promised in too many runs.
        """
        state = self.load()
        state = DeviceState({**state.runs, run: promise})
        if len(state.runs) > _MOST_RUNS:
            remedy = "Remove the file if its runs have ended."
            raise Forbidden("state-dir", self.path, f"a file of at most {_MOST_RUNS} runs", remedy)
        self.save(state)
        if self._durable:
            _known[self.path] = state

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the device's state; wait for another process that holds it.

        Raises
        ------
        Forbidden : the lock is not free in time.
        ConfigError : the lock cannot be opened.
        """
        held = self._lock(".lock", _PATIENCE)
        if held is None:
            remedy = "End the other process of this client."
            raise Forbidden("state-dir", self.path, f"unlocked within {_PATIENCE:g} s", remedy)
        with held:
            yield

    @contextmanager
    def training(self) -> Iterator[bool]:
        """Hold the lock of training; yield False if another training holds it."""
        held = self._lock(".training", 0.0)
        with held or nullcontext():
            yield held is not None

    def _lock(self, suffix: str, patience: float) -> AbstractContextManager[object] | None:
        """Return a lock that is held; None: another process holds it."""
        if not self._durable:
            return nullcontext()
        path = self.path.with_suffix(suffix)
        allowed = "a regular file in a folder that this client can write"
        with refusing(OSError, "state-dir", path, allowed, "Set state-dir to a folder with room left."):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                return lock(path, patience)
            except BlockingIOError:
                return None


def device_of(node: Mapping[str, Value], who: "Identity", *, private: bool) -> Device:
    """Return a client's device.

    Raises
    ------
    Forbidden : the run or the owner binds the client, and the owner has set no folder that keeps its promises.
    """
    if STATE in node:
        return Device(Path(str(node[STATE])), who.name, durable=True)
    if (private and not who.simulated) or not node.keys().isdisjoint(KEYS):
        allowed = "set in node.toml, because the client keeps its promises and its owner's rules there"
        raise Forbidden(STATE, None, allowed, "Set it to a folder of this client.")
    return Device(who.state_dir, who.name, durable=False)


def is_bound(node: Mapping[str, Value]) -> bool:
    """Return whether any client has made a promise in an owner's folder, or the folder cannot be read."""
    if STATE not in node:
        return False
    folder = Path(str(node[STATE]))
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        names = []
    except OSError:
        return True
    return any(name.endswith(SUFFIX) for name in names) or any(path.parent == folder for path in _known)


def promise_after(
    known: Promise | None, age: ClientAge | None, ask: ParticipationRequest, apart: int
) -> Promise | None:
    """Return the strictest promise of all messages so far, which a message and the owner's rules ask for.

    Parameters
    ----------
    known : the promise before the message; None: none
    age : the client's clock, if it has one
    ask : the message's record
    apart : the owner's ``min-separation``
    """
    if known is None and apart == 1 and not ask.private:
        return None
    if known is None and age is not None:  # the first terms arrive in the middle of the run
        known = Promise(1, None, since=0, last=max(0, age.last))
    known = known or Promise(1, None, since=ask.round - 1)

    def strictest(choose: Callable[..., Any], *values: float | None) -> Any:
        return choose((value for value in values if value is not None), default=None)

    return replace(
        known,
        separation=max(known.separation, apart, ask.min_separation or 1),
        rounds=strictest(min, known.rounds, ask.rounds),
        clear=known.clear and (bool(ask.clear) or not ask.private),
        mu=strictest(max, known.mu, ask.mu),
        delta=strictest(min, known.delta, ask.delta),
    )


def refused_now(node: Mapping[str, Value]) -> str | None:
    """Return the key of the owner's rule that forbids a training now, or None.

    The ClientApp asks before it promises a round. In a sandbox it cannot read the gate's files, and the gate itself
    refuses the training.
    """
    if node.keys().isdisjoint(KEYS):
        return None
    folder = Path(str(node.get(STATE, "")))
    gate = Gate(node, "", book := Book(folder))
    rule = gate.rules.forbids(datetime.now())
    if rule is None and os.path.exists(folder / GATE):
        try:
            gate.may_train(Arrival("", protocol.TRAIN, "", ""), book.load(), time.time())
        except Refusal as refusal:
            rule = refusal.rule
    return rule


def _decode(body: dict[str, Any]) -> DeviceState:
    runs = {
        checked_name("run name", run): typed(Promise(**promise), -MAX_AGE, MAX_AGE)
        for run, promise in body["runs"].items()
    }
    return DeviceState(runs)
