"""The runs of a cluster, for its operator: list, log, stop and queue."""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from aoi_fl.docker.arrivals import LOOK
from aoi_fl.docker.nodes import say
from aoi_fl.flower.calls import CallError
from aoi_fl.flower.control import ControlApi, RunState
from aoi_fl.protocol.files import read_text, regular
from aoi_fl.report.summary_card import glance
from aoi_fl.science.errors import AoiError, ConfigError, did_you_mean
from aoi_fl.server.folder import LEDGER, is_played
from aoi_fl.server.ledger import DAMAGE, About, Ledger, read, read_run

RUNS = Path("/runs")
CURRENT = RUNS / ".current"
NUMBERS = "flower-runs"  # the file in a run's folder with Flower's ids of it, the latest resumption last
DEAD = 10.0  # seconds without a process, after which a run that has begun counts as dead
_ENDED = ("completed", "stopped", "failed")
_ENDS = 60.0  # seconds for a stopped ServerApp to end
COMMAND = "docker compose run --rm --no-deps submit runs"


def about(folder: Path) -> About:
    """Return the ledger's ``run`` table; empty without a readable ledger."""
    try:
        return read_run(folder / LEDGER)
    except (AoiError, *DAMAGE):
        return {}


def numbers(folder: Path) -> list[int]:
    """Return Flower's ids of a run, one for each submission."""
    try:
        return [int(line) for line in read_text(folder / NUMBERS).split()]
    except FileNotFoundError:
        return []


def note_number(folder: Path, run_id: int) -> None:
    """Record Flower's id of a submission."""
    with open(folder / NUMBERS, "a", encoding="utf-8", opener=regular) as file:
        file.write(f"{run_id}\n")


class Runs:
    """The runs in a folder, with their states at the SuperLink.

    Parameters
    ----------
    control : the SuperLink
    folder : folder of the runs
    """

    def __init__(self, control: ControlApi, folder: Path = RUNS) -> None:
        self._control, self._folder = control, folder

    def numbers(self, *, certain: bool = False) -> dict[str, list[int]]:
        """Return Flower's ids of each run of this cluster or with a ledger, the oldest run and the latest id last.

        The SuperLink adds what a killed submit has not recorded; if ``certain``, it has to answer.
        """
        folders = {file.parent for name in (LEDGER, NUMBERS) for file in self._folder.glob(f"[!.]*/{name}")}
        ordered = sorted(folders, key=lambda path: (path.stat().st_ctime, path.name))
        known = {path.name: numbers(path) for path in ordered}
        try:
            for state in self.going():
                if state.name and state.run_id not in known.setdefault(state.name, []):
                    known[state.name].append(state.run_id)
        except CallError:
            if certain:
                raise
        return known

    def folder(self, name: str) -> Path:
        """Return the folder of a run.

        Raises
        ------
        ConfigError : there is no run of that name.
        """
        if name in (names := self.numbers()):
            return self._folder / name
        raise ConfigError(
            "run",
            name,
            "a run of `runs list`",
            did_you_mean(name, names).strip() or f"Choose one of {', '.join(names)}." if names else "There is no run.",
        )

    def of_number(self, run_id: int) -> Path:
        """Return the folder of the run with one of Flower's ids; of an unknown one, the current run's."""
        known = self.numbers(certain=True)  # an unavailable SuperLink is no unknown run
        names = (name for name, ids in known.items() if run_id in ids)
        return next((self._folder / name for name in names), CURRENT.resolve())

    def known(self, name: str) -> RunState:
        """Return a run's state at the SuperLink.

        Raises
        ------
        ConfigError : the run has not begun, or belongs to another cluster.
        """
        folder = self.folder(name)
        submitted = self.numbers().get(folder.name, [])
        if (state := self._latest(submitted)) is None:
            allowed = "a run of this cluster's SuperLink" if submitted else "a run that this cluster has begun"
            raise ConfigError("run", name, allowed, "Use the cluster or the machine that began it, or resume it here.")
        return state

    def _latest(self, submitted: list[int]) -> RunState | None:
        """Return the state of a run's latest submission at the SuperLink."""
        return self._control.run(submitted[-1]) if submitted else None

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each run: name, state with details, policy, data set and rounds."""
        rows = []
        for name, submitted in self.numbers().items():
            seen = glance(folder := self._folder / name)
            rows.append(
                {
                    "run": name,
                    "state": seen.state.name if about(folder) else self._beginning(submitted),
                    "policy": seen.policy,
                    "dataset": seen.dataset,
                    "round": seen.round,
                    "rounds": seen.rounds,
                    "detail": seen.state.detail,
                }
            )
        for place, ticket in enumerate(waiting(self._folder), 1):
            rows.append({"round": 0, "detail": f"number {place} of the queue"} | ticket.facts | {"state": "queued"})
        return rows

    def _beginning(self, submitted: list[int]) -> str:
        """Return the state of a run without a ledger."""
        state = self._latest(submitted)
        return "lost" if state is None else state.outcome or state.status

    def log(self, name: str) -> str:
        """Return the log of a run.

        Raises
        ------
        ConfigError : the run does not exist, has not begun, or belongs to another cluster.
        """
        if any(ticket.facts["run"] == name for ticket in waiting(self._folder)):
            raise ConfigError("run", name, "a run that has begun", "It waits in the queue. Read its log later.")
        return self._control.log(self.known(name).run_id)

    def stop(self, name: str) -> int:
        """Stop a run, or remove it from the queue; return the last recorded round.

        Raises
        ------
        ConfigError : the run is not in progress, or belongs to another cluster.
        """
        for ticket in waiting(self._folder):
            if ticket.facts["run"] == name:
                ticket.path.unlink(missing_ok=True)
                return 0
        state, folder = self.known(name), self.folder(name)
        if state.status == "finished":
            ended = about(folder).get("status") or state.outcome
            ended = state.outcome if ended == "running" else ended
            raise ConfigError(
                "run", name, f"a run in progress; this one is {ended}", f"Continue it: {COMMAND} resume {name}"
            )
        self._control.stop(state.run_id)
        end = time.monotonic() + _ENDS
        while is_played(folder) and time.monotonic() < end:
            time.sleep(0.5)
        if not about(folder):
            return 0
        with closing(Ledger(folder / LEDGER)) as ledger:
            ledger.note(status="stopped", reason="stopped by the operator")
        last = read(folder / LEDGER, "rounds", last=1)
        return int(last[0]["round"]) if last else 0

    def remove(self, name: str) -> None:
        """Delete the folder of a run that has ended.

        Raises
        ------
        ConfigError : there is no such run, or it is in progress.
        """
        folder = self.folder(name)
        if is_played(folder) or folder in [self.of_number(state.run_id) for state in self.going()]:
            raise ConfigError("run", name, "a run that has ended", f"Stop it: {COMMAND} stop {name}")
        if CURRENT.is_symlink() and CURRENT.resolve() == folder.resolve():
            CURRENT.unlink()
        shutil.rmtree(folder)

    def retain(self, count: int) -> list[str]:
        """Delete the oldest ended runs beyond a number, and return their names; 0 keeps all."""
        ended = [name for name in self.numbers() if about(self._folder / name).get("status") in _ENDED]
        removed = []
        for name in ended[: max(0, len(ended) - count)] if count else ():
            with suppress(ConfigError):  # it is being resumed
                self.remove(name)
                removed.append(name)
        return removed

    def check_resumable(self, name: str) -> None:
        """Raise ConfigError for a run that is in progress, complete, unrecorded or unknown."""
        folder = self.folder(name)
        status, played = about(folder).get("status"), is_played(folder)
        if status is None:
            raise ConfigError("run", name, "a run with a ledger", "Start it again with docker compose up.")
        if status == "completed" or played:
            allowed = f"a run that can continue; this one is {'running' if played else status}"
            remedy = f"Stop it: {COMMAND} stop {name}" if played else "Start a new run with docker compose up."
            raise ConfigError("run", name, allowed, remedy)

    def going(self) -> list[RunState]:
        """Return the runs that have not ended at the SuperLink, the newest last."""
        return [state for state in self._control.runs() if state.status != "finished"]

    def is_dead(self, state: RunState) -> bool:
        """Return whether a run that has begun has no process; the SuperLink needs minutes to notice."""
        folder = self.of_number(state.run_id)
        end = time.monotonic() + DEAD
        while about(folder).get("status") in ("running", "interrupted") and is_played(folder) is False:
            if time.monotonic() > end:
                return True
            time.sleep(0.5)
        return False

    def await_turn(self, ticket: "Ticket") -> None:
        """Wait until no run is in progress and no older ticket waits; stop runs without a process.

        Raises
        ------
        AoiError : the operator has removed the run from the queue.
        """
        announced = False
        while True:
            with suppress(CallError):  # the SuperLink restarts
                going = self.going()
                for state in going:
                    if self.is_dead(state):
                        say(f"run {self.of_number(state.run_id).name} has died")
                        self._control.stop(state.run_id)
                ahead = [other for other in waiting(self._folder) if other.path < ticket.path]
                if not ticket.path.exists():
                    raise AoiError(f"Run {ticket.facts['run']} was taken from the queue.")
                if not going and not ahead:
                    return
                if not announced:
                    name = ticket.facts["run"] or "without a name"
                    say(f"run {name} waits; runs before it: {len(going) + len(ahead)}")
                    announced = True
            time.sleep(LOOK)


@dataclass(frozen=True)
class Ticket:
    """A place in the queue: a file with facts for `runs list`, locked by the waiting process."""

    path: Path
    facts: dict[str, Any]

    @classmethod
    @contextmanager
    def take(cls, facts: dict[str, Any], runs: Path = RUNS) -> Iterator[Self]:
        """Take the last place for the length of the block; a killed process releases it."""
        with _queue(runs) as folder:
            taken = [int(path.stem) for path in folder.glob("*.json")]
            path = folder / f"{max(taken, default=0) + 1:09d}.json"
            file = open(path, "w", encoding="utf-8")  # noqa: SIM115, closed below
            fcntl.flock(file, fcntl.LOCK_EX)
            json.dump(facts, file)
            file.flush()
        try:
            yield cls(path, facts)
        finally:
            path.unlink(missing_ok=True)
            file.close()


def waiting(runs: Path) -> list[Ticket]:
    """Return the queue, the oldest first, and remove places without a process."""
    tickets = []
    with _queue(runs) as folder:
        for path in sorted(folder.glob("*.json")):
            with open(path, encoding="utf-8") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    tickets.append(Ticket(path, json.load(file)))
                else:
                    path.unlink()
    return tickets


@contextmanager
def _queue(runs: Path) -> Iterator[Path]:
    folder = runs / ".queue"
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(lock)
