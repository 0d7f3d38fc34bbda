"""A recorded run as arrays, the source of a report's figures and tables."""

import csv
import glob
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.report import state, theory
from aoi_fl.report.corruption import check, check_run, error_line, legible
from aoi_fl.report.in_time import InTime, in_time
from aoi_fl.report.output import restored
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.history import History
from aoi_fl.science.load import LoadMetrics, measure
from aoi_fl.science.rule import IntervalLaw
from aoi_fl.server import ledger
from aoi_fl.server.folder import LEDGER

DROPPED = ("failed", "late", "refused")
PRODUCED = ("trained", "refused")  # the client trained, even if its reply was dropped

_MOST_CLIENTS = 1_000_000  # as many as a run may have

ABSENT, STALE, TOOK_PART, FORCED, LOST = range(5)


@dataclass(frozen=True)
class Run:
    """One run, read from its ledger.

    Attributes
    ----------
    label : name shown on the page, unique among the runs of one page
    about : the ledger's ``run`` table: ``config``, ``policy``, ``status``, …
    clients : rows of the ledger's ``clients``, ascending by number
    rounds : rows of ``rounds``, ascending, with a column for each of their ``metrics``
    participations : rows of ``participations`` of those rounds, ascending by round and client
    """

    label: str
    about: dict[str, Any]
    clients: list[dict[str, Any]]
    rounds: list[dict[str, Any]]
    participations: list[dict[str, Any]]

    @property
    def config(self) -> dict[str, Any]:
        """Every key of the run's configuration."""
        return dict(self.about.get("config") or {})

    @property
    def policy(self) -> dict[str, Any]:
        """The policy's parameters in the ledger."""
        return dict(self.about.get("policy") or {})

    @property
    def status(self) -> str:
        """The run's state (:mod:`aoi_fl.report.state`) when it was read, or ``unknown``."""
        return str(self.about.get("status", "unknown"))

    @property
    def budgeted(self) -> bool:
        """Whether the policy pays for refreshed data, so that a selection is a refresh."""
        return "budget" in self.policy

    @cached_property
    def size(self) -> int:
        """Number of clients n, from the policy, the configuration, or the recorded clients."""
        seen = [int(row["client"]) + 1 for row in (*self.clients, *self.participations)]
        return max([int(self.policy.get("clients") or 0), int(self.config.get("num-clients") or 0), *seen])

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw: no rounds, or no clients."""
        return not self.rounds or not self.size

    @property
    def dropped(self) -> list[dict[str, Any]]:
        """The participations that failed, came late or were refused."""
        return [row for row in self.participations if row["outcome"] in DROPPED]

    def name(self, client: int) -> str:
        """Return a client's name, or its number."""
        return self._names.get(client, str(client))

    @cached_property
    def _names(self) -> dict[int, str]:
        return {row["client"]: str(row["name"]) for row in self.clients}

    @cached_property
    def _position(self) -> dict[int, int]:
        return {row["round"]: i for i, row in enumerate(self.rounds)}

    @property
    def named(self) -> bool:
        """Whether clients have names other than their numbers."""
        return any(name != str(client) for client, name in self._names.items())

    @cached_property
    def numbers(self) -> NDArray[np.int64]:
        """(R,) int64: the recorded rounds, ascending."""
        return np.array([row["round"] for row in self.rounds], dtype=np.int64)

    def column(self, field: str) -> NDArray[np.float64]:
        """Return (R,) float64: a column of ``rounds``, with NaN for missing values."""
        return np.array(
            [np.nan if (value := row.get(field)) is None else value for row in self.rounds], dtype=np.float64
        )

    @cached_property
    def selected(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Index in ``rounds``, client and weight of every selection, three (s,) arrays.

        A client is selected if it produced an update or, under a budget, refreshed its data.
        """
        chosen = self._chosen
        return (
            np.array([self._position[r["round"]] for r in chosen], dtype=np.int64),
            np.array([r["client"] for r in chosen], dtype=np.int64),
            np.array([r["weight"] or 0.0 for r in chosen], dtype=np.float64),
        )

    @cached_property
    def _chosen(self) -> list[dict[str, Any]]:
        if self.budgeted:  # a client without an update does not count as refreshed, as on the server
            return [r for r in self.participations if r["refreshed"] and r["outcome"] == "trained"]
        return [r for r in self.participations if r["outcome"] in PRODUCED]

    @cached_property
    def history(self) -> History:
        """The selections as a history for :mod:`aoi_fl.science.load`, with rounds 1 … R.

        A client's initial age follows from its age at its first selection, or is 0 if that is unknown. Under a budget
        it is the age of the client's data.
        """
        when, selected, weights = self.selected
        if self.budgeted:
            since, ages = self._joined
            first_ages = np.maximum(ages - since + 1, 0)
        else:
            first_ages = np.zeros(self.size, dtype=np.int64)
            clients, first = np.unique(selected, return_index=True)
            for client, j in zip(clients.tolist(), first.tolist(), strict=True):
                first_ages[client] = max(0, (self._chosen[j]["age"] or 0) - when[j])
        return History.from_arrays(self.size, len(self.rounds), when + 1, selected, weights, first_ages=first_ages)

    @cached_property
    def estimated(self) -> dict[int, float]:
        """The server's last estimate of each client's φ; empty if it estimates none."""
        return {row["client"]: row["sensitivity"] for row in self.participations if row.get("sensitivity") is not None}

    @cached_property
    def measured(self) -> LoadMetrics:
        """The clients' load from the selections."""
        return measure(self.history)

    @cached_property
    def law(self) -> IntervalLaw | None:
        """The policy's distribution of X in theory, or None."""
        return theory.law(self.policy, self.config, self.size)

    @cached_property
    def in_time(self) -> InTime | None:
        """The run's cost in simulated time, or None."""
        return in_time(self.rounds, self.participations, self.size)

    @property
    def _joined(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first round of each client and the age of its data then, two (n,) arrays."""
        since, ages = np.ones(self.size, dtype=np.int64), np.zeros(self.size, dtype=np.int64)
        for row in self.clients:
            since[row["client"]] = max(1, row["since"] or 1)
            ages[row["client"]] = row["data_age"] or 0
        return since, ages

    def grid(self) -> NDArray[np.int8]:
        """Return (n, R) int8: ABSENT, STALE (trained on old data), TOOK_PART, FORCED or LOST."""
        grid = np.zeros((self.size, len(self.rounds)), dtype=np.int8)
        for row in self.participations:
            if row["outcome"] == "declined":
                continue
            if row["outcome"] in DROPPED:
                state = LOST
            elif row["forced"]:
                state = FORCED
            else:
                state = STALE if self.budgeted and not row["refreshed"] else TOOK_PART
            grid[row["client"], self._position[row["round"]]] = state
        return grid

    def ages(self) -> NDArray[np.float64]:
        """Return (n, R) float64: data ages Δ after each round's refreshes; NaN before joining.

        Objective P2 of Xu et al. (2024) averages these ages.
        """
        since, first = self._joined
        refreshed = np.zeros((self.size, len(self.rounds)), dtype=bool)
        rounds, clients, _ = self.selected
        refreshed[clients, rounds] = True
        ages = np.full(refreshed.shape, np.nan)
        age = first.astype(np.float64)
        for i, number in enumerate(self.numbers):
            age = np.where(refreshed[:, i], 0.0, age + 1)
            age = np.where(since > number, first, age)
            ages[:, i] = np.where(since > number, np.nan, age)
        return ages


def load(folder: Path, label: str) -> Run:
    """Read a run from its folder; safe during the run.

    Raises
    ------
    ConfigError : the folder or its ledger is missing, or the ledger cannot be read.
    """
    path = folder / LEDGER
    with legible(path):
        if not folder.is_dir():
            raise ConfigError("run", folder, "the folder of a run, or the name of a run under runs/", "Check the name.")
        about = ledger.read_run(path)
        about["status"] = state.status(folder, about)
        clients, rounds = ledger.read(path, "clients"), ledger.read(path, "rounds")
        check("rounds", rounds)
        last = rounds[-1]["round"] if rounds else 0
        rounds = [row.pop("metrics") | row for row in rounds]
        participations = ledger.read(path, "participations")
        check("participations", participations)
        participations = [row for row in participations if row["round"] <= last]
        run = Run(readable(label), about, clients, rounds, participations)
        _check_whole(run)
    return run


def _check_whole(run: Run) -> None:
    """Raise ValueError if a run's tables are inconsistent."""
    check_run(run.about)
    check("clients", run.clients)
    lacking = {row["round"] for row in run.participations} - {row["round"] for row in run.rounds}
    if lacking:
        raise ValueError(f"participations has round {min(lacking)}, which rounds lacks")
    least = min((row["client"] for row in (*run.clients, *run.participations)), default=0)
    if not 0 <= least <= run.size <= _MOST_CLIENTS:
        raise ValueError(f"its clients go from {least} to {run.size - 1}")


def readable(name: str) -> str:
    """Return a name as UTF-8, also a folder's that is in no encoding."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


def find(run: str) -> Path:
    """Return the folder of a run given by its path, or by its name under ``runs``."""
    given, named = Path(run), Path("runs") / run
    for path in (given, named):
        try:
            with suppress(FileNotFoundError, NotADirectoryError):
                path.stat()
        except (OSError, ValueError) as error:
            raise ConfigError("RUN", run, f"a path that the system takes ({error_line(error)})", "Check it.") from error
    # Another folder, such as an app's, may have a run's name.
    return named if named.is_dir() and not (given / LEDGER).is_file() else given


def compared(name: str) -> list[Path]:
    """Return the folders of a comparison's runs in its order, by the name of its table or page; [] for another name."""
    places = [] if (find(name) / LEDGER).is_file() else [Path("runs") / name, Path(name)]
    for place in places if Path(name).name else ():
        table = place.with_suffix(".csv")
        if place.suffix in ("", ".csv", ".html") and not place.is_dir() and table.is_file():
            with suppress(ValueError, csv.Error), table.open(encoding="utf-8", newline="") as file:
                return [table.parent / restored(row["run"]) for row in csv.DictReader(file) if row.get("run")]
    return []


def matching(names: Sequence[str], option: str = "RUN", files: Collection[str] = (LEDGER,)) -> list[Path]:
    """Return the folders of runs by paths, names under ``runs``, globs or comparisons, each once.

    A run has one of the ``files``.

    Raises
    ------
    ConfigError : a name is no run, or a glob matches none.
    """
    folders: dict[Path, Path] = {}
    for name in names:
        found = [find(name)]
        if runs := compared(name):
            found = runs
        elif glob.has_magic(name) and not (found[0] / LEDGER).is_file():
            path = Path(name)
            places = [(Path("runs"), name), (Path(), name)]
            if path.is_absolute():
                places = [(Path(path.anchor), str(path.relative_to(path.anchor)))]
            globs = (
                sorted({path.parent for file in files for path in at.glob(f"{within}/{file}")}) for at, within in places
            )
            found = next(filter(None, globs), [])
        if not found or not all(any((folder / file).exists() for file in files) for folder in found):
            allowed = "a run, a name under runs/, or a glob that matches runs"
            raise ConfigError(option, name, allowed, "List their names with aoi runs.")
        folders |= {folder.resolve(): folder for folder in found}
    return list(folders.values())


def load_all(names: Sequence[str]) -> list[Run]:
    """Read several runs, each once, with their folders' names as labels, and parents' if needed."""
    folders = {find(name).resolve(): find(name) for name in names}
    depth = 1
    while len({folder.parts[-depth:] for folder in folders}) < len(folders):
        depth += 1
    alike = Counter(folder.name for folder in folders)
    return [
        load(given, folder.name if alike[folder.name] == 1 else "/".join(folder.parts[-depth:]))
        for folder, given in folders.items()
    ]
