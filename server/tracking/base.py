"""The base of all trackers: it logs each round once, and survives a tool's failure."""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from flwr.app import ArrayRecord

from aoi_fl.config.policies import Keys
from aoi_fl.protocol.log import logger
from aoi_fl.protocol.records import NO_COLUMNS, ClientRecord, RoundRecord, State
from aoi_fl.server.ledger import Row, ending

_NO_NUMBERS = ("round", "started", "metrics", *NO_COLUMNS)


def numbers(row: Row) -> dict[str, float]:
    """Return a round's numbers by the names of :class:`aoi_fl.protocol.records.RoundRecord`.

    Examples
    --------
    >>> numbers({"round": 3, "seconds": 0.5, "forced": True, "spent": None})
    {'seconds': 0.5, 'forced': 1.0}
    """
    known = {key: float(value) for key, value in row.items() if key not in _NO_NUMBERS and value is not None}
    return dict(row.get("metrics") or {}) | known


class Tracker(ABC):
    """An observer that logs the configuration, each round's numbers and the run's end to a tool.

    A resumed run continues the tool's run after the last logged round. An error of the tool is a warning, because the
    ledger is the record. A resumed run logs the missed rounds.

    Parameters
    ----------
    name : the run's name
    folder : the run's folder, into which the tool writes
    config : the run's keys, or another app's configuration
    resume : whether to continue the tool's run; otherwise an old run of that name is replaced
    """

    tool: ClassVar[str]
    files: ClassVar[tuple[str, ...]] = ()  # patterns of what the tool writes into the folder

    def __init__(self, name: str, folder: Path, config: Keys | None = None, *, resume: bool = False) -> None:
        self.name, self.folder = name, folder.absolute()
        self._config, self._resume = dict(config or {}), resume
        self._last: int | None = None  # round, once the tool's run is open
        self._missed: list[Row] = []

    def run_begins(self, policy: dict[str, Any], rounds: int) -> None:
        """Open the tool's run, with the policy's parameters beside the configuration."""
        self._config |= {f"policy.{key}": value for key, value in policy.items()} | {"rounds": rounds}
        self._safely("begin", self._open)
        for row in self._missed:
            self._safely(f"log round {row['round']}", self._log_once, row)

    def catch_up(self, rows: Iterable[Row]) -> None:
        """Take the ledger's rounds: :meth:`run_begins` logs those that the tool lacks."""
        self._missed = [*rows]

    def clients_seen(self, clients: list[ClientRecord]) -> None:  # noqa: B027, nothing to override
        """Do nothing: the clients stay in the ledger."""

    def round_done(self, record: RoundRecord, arrays: ArrayRecord, memory: State) -> None:
        """Log a round, once."""
        self._safely(f"log round {record.round}", self._log_once, vars(record))

    def run_ends(self, stopped: str | None, error: BaseException | None) -> None:
        """Close the tool's run as completed, stopped, interrupted or failed."""
        if self._last is not None:
            self._safely("end", self._end, str(ending(stopped, error)["status"]))

    def _open(self) -> None:
        former = [path for pattern in self.files for path in self.folder.glob(pattern)]
        for path in () if self._resume else former:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._last = self._begin()

    def _log_once(self, row: Row) -> None:
        if self._last is None:  # it could not begin
            self._open()
        if row["round"] > (self._last or 0):
            self._log(row["round"], numbers(row))
            self._last = row["round"]

    def _safely(self, what: str, act: Any, *given: Any) -> None:
        try:
            act(*given)
        except Exception as error:
            logger.warning("%s could not %s (%s: %s); the run continues.", self.tool, what, type(error).__name__, error)

    @abstractmethod
    def _begin(self) -> int:
        """Open the tool's run and return its last round, 0 for a new run."""

    @abstractmethod
    def _log(self, round_: int, values: Mapping[str, float]) -> None:
        """Log a round to the tool."""

    @abstractmethod
    def _end(self, status: str) -> None:
        """Close the tool's run."""
