"""A recorded run as arrays, the source of a report's figures and tables."""

import csv
import glob
import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.report import theory
from aoi_fl.report.corruption import check, check_run, error_line, legible
from aoi_fl.report.in_time import InTime, in_time
from aoi_fl.report.output import restored
from aoi_fl.report.state import RunStatus, status, tell
from aoi_fl.science.ageing import ageing_cost
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.history import History
from aoi_fl.science.load import LoadMetrics, measure
from aoi_fl.science.names import Ageing
from aoi_fl.science.objective import lagrangian_floor
from aoi_fl.science.rule import IntervalLaw
from aoi_fl.science.types import Floats, Ints
from aoi_fl.server import ledger
from aoi_fl.server.folder import LEDGER
from aoi_fl.server.ledger import About, Row

DROPPED = ("failed", "late", "refused")
PRODUCED = ("trained", "refused")  # the client trained, even if its reply was dropped

_MOST_CLIENTS = 1_000_000  # as many as a run may have

ABSENT, STALE, TOOK_PART, FORCED, LOST = range(5)


@dataclass(frozen=True)
class RecordedRun:
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
    about: About
    clients: list[Row]
    rounds: list[Row]
    participations: list[Row]

    @property
    def config(self) -> dict[str, Any]:
        """Every key of the run's configuration."""
        return dict(self.about.get("config") or {})

    @property
    def policy(self) -> dict[str, Any]:
        """The policy's parameters in the ledger."""
        return dict(self.about.get("policy") or {})

    @property
    def kind(self) -> str:
        """The policy's name in the configuration, else in the ledger, or an empty text."""
        return str(self.config.get("policy") or self.policy.get("kind") or "")

    @property
    def status(self) -> str:
        """The run's state (:mod:`aoi_fl.report.state`) when it was read, or ``unknown``."""
        return str(self.about.get("status", "unknown"))

    @property
    def state(self) -> RunStatus:
        """The run's state when it was read, with details."""
        return tell(self.about, self.rounds)

    @property
    def planned(self) -> int | None:
        """The planned number of rounds; None if simulated time ends the run."""
        return ledger.planned(self.config)

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
    def dropped(self) -> list[Row]:
        """The participations that failed, came late or were refused."""
        return [row for row in self.participations if row["outcome"] in DROPPED]

    @property
    def diverged(self) -> int:
        """Number of rounds whose test loss is infinite, as a ledger has it for no number."""
        return int(np.isinf(self.column("test_loss")).sum())

    def name(self, client: int) -> str:
        """Return a client's name, or its number."""
        return self._names.get(client, str(client))

    @cached_property
    def _names(self) -> dict[int, str]:
        return {row["client"]: str(row["name"]) for row in self.clients}

    @property
    def named(self) -> bool:
        """Whether clients have names other than their numbers."""
        return any(name != str(client) for client, name in self._names.items())

    @cached_property
    def numbers(self) -> Ints:
        """(R,) int64: the recorded rounds, ascending."""
        return np.array([row["round"] for row in self.rounds], dtype=np.int64)

    def column(self, field: str) -> Floats:
        """Return (R,) float64: a column of ``rounds``, with NaN for missing values."""
        return np.array([row.get(field) for row in self.rounds], dtype=np.float64)

    @cached_property
    def history(self) -> History:
        """The selections as a history for :mod:`aoi_fl.science.load`, with rounds 1 … R.

        A client is selected if it produced an update or, under a budget, refreshed its data. Its initial age follows
        from its age at its first selection, or is 0 if that is unknown. Under a budget it is the age of its data.
        """
        chosen = [r for r in self.participations if r["outcome"] in PRODUCED]
        if self.budgeted:  # a client without an update does not count as refreshed, as on the server
            chosen = [r for r in chosen if r["refreshed"] and r["outcome"] == "trained"]
        when, selected = self._places(chosen), np.array([r["client"] for r in chosen], dtype=np.int64)
        if self.budgeted:
            since, ages = self._joined
            first_ages = np.maximum(ages - since + 1, 0)
        else:
            first_ages = np.zeros(self.size, dtype=np.int64)
            clients, first = np.unique(selected, return_index=True)
            first_ages[clients] = [max(0, (chosen[j]["age"] or 0) - when[j]) for j in first]
        weights = [r["weight"] or 0.0 for r in chosen]
        return History.from_arrays(self.size, len(self.rounds), when + 1, selected, weights, first_ages=first_ages)

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
    def _joined(self) -> tuple[Ints, Ints]:
        """The first round of each client and the age of its data then, two (n,) arrays."""
        since, ages = np.ones(self.size, dtype=np.int64), np.zeros(self.size, dtype=np.int64)
        for row in self.clients:
            since[row["client"]] = max(1, row["since"] or 1)
            ages[row["client"]] = row["data_age"] or 0
        return since, ages

    def grid(self) -> NDArray[np.int8]:
        """Return (n, R) int8: ABSENT, STALE (trained on old data), TOOK_PART, FORCED or LOST."""
        taking = [row for row in self.participations if row["outcome"] != "declined"]
        grid = np.zeros((self.size, len(self.rounds)), dtype=np.int8)
        grid[[row["client"] for row in taking], self._places(taking)] = list(map(self._part, taking))
        return grid

    def _places(self, rows: Sequence[Row]) -> Ints:
        return np.searchsorted(self.numbers, [row["round"] for row in rows])

    def _part(self, row: Row) -> int:
        if row["outcome"] in DROPPED:
            return LOST
        if row["forced"]:
            return FORCED
        return STALE if self.budgeted and not row["refreshed"] else TOOK_PART

    def ages(self) -> Floats:
        """Return (n, R) float64: data ages Δ after each round's refreshes; NaN before joining.

        Objective P2 of Xu et al. (2024) averages these ages.
        """
        since, first = self._joined
        ages = np.array([after.astype(np.float64) for after in islice(self.history.ages(), 1, None)]).T
        joined = self.numbers - since[:, np.newaxis] + 1  # rounds with the client so far
        return np.where(joined > 0, np.minimum(ages, first[:, np.newaxis] + joined), np.nan)

    @cached_property
    def estimated(self) -> dict[int, float]:
        """The server's last estimate of each client's φ; empty if it estimates none."""
        return {row["client"]: row["sensitivity"] for row in self.participations if row.get("sensitivity") is not None}

    @cached_property
    def worth(self) -> tuple[Floats, Floats] | None:
        """(n,) payments p and (n,) sensitivities φ under a budget, or None if a client lacks one.

        The sensitivities are the declared ones or, if the server estimates them, its last estimates. The result is also
        None if a client joined after round 1: P2 and its floor need the same clients in all rounds.
        """
        if not self.budgeted or self.empty:
            return None
        learned = self.estimated
        declared = {
            row["client"]: (row["payment"], learned.get(row["client"]) if learned else row["sensitivity"])
            for row in self.clients
            if (row["since"] or 1) <= 1
        }
        pairs = np.array([declared.get(client, (None, None)) for client in range(self.size)], dtype=np.float64)
        return None if np.isnan(pairs).any() else (pairs[:, 0], pairs[:, 1])

    def objective(self, ageing: Ageing = "linear") -> Floats | None:
        """Return (R,) P2 over rounds 1 … t for each t, from the ages after refreshes, or None as for ``worth``.

        With another cost of ageing it is that cost's objective (:mod:`aoi_fl.science.objective`).
        """
        if self.worth is None:
            return None
        cost = self.worth[1] @ ageing_cost(ageing)(np.nan_to_num(self.ages())) / self.size
        return np.asarray(np.cumsum(cost) / np.arange(1, len(cost) + 1))

    def floor(self) -> Floats | None:
        """Return (R,) the floor of P2 over as many rounds as are complete, or None as for ``worth``."""
        if self.worth is None:
            return None
        budget = float(self.policy["budget"])
        return np.array([lagrangian_floor(*self.worth, budget, t + 1) for t in range(len(self.rounds))])


def load(folder: Path, label: str) -> RecordedRun:
    """Read a run from its folder; safe during the run.

    Raises
    ------
    ConfigError : the folder or its ledger is missing, or the ledger cannot be read.
    """
    with legible(folder / LEDGER):
        return read(folder, label)


def read(folder: Path, label: str, last: int = -1) -> RecordedRun:
    """Read a run, or only its ``last`` rounds with the participations of the last one, and no clients.

    Raises
    ------
    ConfigError : the folder or its ledger is missing.
    DAMAGE : the ledger cannot be read.
    """
    path = folder / LEDGER
    about = ledger.read_run(path)
    if about:
        about["status"] = status(folder, about)
    rounds = check("rounds", ledger.read(path, "rounds", last=last))
    end = rounds[-1]["round"] if rounds else 0
    clients, since = (check("clients", ledger.read(path, "clients")), 0) if last < 0 else ([], end - 1)
    parts = check("participations", ledger.read(path, "participations", since))
    check_run(about)
    rounds = [row.pop("metrics") | row for row in rounds]
    run = RecordedRun(readable(label), about, clients, rounds, [row for row in parts if row["round"] <= end])
    lacking = {row["round"] for row in run.participations} - {row["round"] for row in rounds}
    if lacking:
        raise ValueError(f"participations has round {min(lacking)}, which rounds lacks")
    least = min((row["client"] for row in (*clients, *run.participations)), default=0)
    if not 0 <= least <= run.size <= _MOST_CLIENTS:
        raise ValueError(f"its clients go from {least} to {run.size - 1}")
    return run


def readable(name: str) -> str:
    """Return a name as UTF-8, also a folder's that is in no encoding."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


def find(run: str | Path) -> Path:
    """Return the folder of a run given by its path, or by its name under ``runs``."""
    given, named = Path(run), Path("runs") / run
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            given.stat()
    except (OSError, ValueError) as error:
        raise ConfigError("RUN", run, f"a path that the system takes ({error_line(error)})", "Check it.") from error
    # Another folder, such as an app's, may have a run's name.
    return named if named.is_dir() and not (given / LEDGER).is_file() else given


def comparison(table: Path) -> list[dict[str, str]]:
    """Return the rows of a comparison's table, a run each, as they were written; [] for a file that is none."""
    with suppress(OSError, ValueError, csv.Error), table.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get("run")]
        return [{key: restored(value or "") for key, value in row.items() if key} for row in rows]
    return []


def compared(name: str) -> list[Path]:
    """Return the folders of a comparison's runs in its order, by the name of its table or page; [] for another name."""
    places = [] if (find(name) / LEDGER).is_file() else [Path("runs") / name, Path(name)]
    for place in places if Path(name).name else ():
        if place.suffix in ("", ".csv", ".html") and not place.is_dir():
            table = place.with_suffix(".csv")
            if table.is_file():
                return [table.parent / row["run"] for row in comparison(table)]
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
        found = compared(name) or [find(name)]
        if glob.has_magic(name) and not (found[0] / LEDGER).is_file():
            places = [[str(Path(place, name, file)) for file in files] for place in ("runs", "")]
            globs = (
                sorted({Path(path).parent for one in patterns for path in glob.glob(one, recursive=True)})
                for patterns in places
            )
            found = next(filter(None, globs), [])
        if not found or not all(any((folder / file).exists() for file in files) for folder in found):
            allowed = "a run, a name under runs/, or a glob that matches runs"
            raise ConfigError(option, name, allowed, "List their names with aoi runs.")
        folders |= {folder.resolve(): folder for folder in found}
    return list(folders.values())


def load_all(names: Iterable[str | Path]) -> list[RecordedRun]:
    """Read several runs, each once; a label is the folder's name, or its path where several have the name."""
    folders = {found.resolve(): found for found in map(find, names)}
    alike = Counter(folder.name for folder in folders)
    common = os.path.commonpath([folder.parent for folder in folders] or [Path()])
    return [
        load(given, folder.name if alike[folder.name] == 1 else str(folder.relative_to(common)))
        for folder, given in folders.items()
    ]
