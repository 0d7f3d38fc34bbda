"""A short summary of a run from a few rows of its ledger, for the wall view and lists."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from aoi_fl.report.corruption import error_line
from aoi_fl.report.measure import ACCURACY, LedgerMeasure, judge
from aoi_fl.report.provenance import public
from aoi_fl.report.runs import RecordedRun, read
from aoi_fl.report.state import RunStatus
from aoi_fl.science.errors import AoiError
from aoi_fl.server import ledger
from aoi_fl.server.folder import LEDGER
from aoi_fl.server.ledger import DAMAGE
from aoi_fl.server.observe import duration, seconds_left

_ROUNDS = 200  # last rounds in the spark line


@dataclass(frozen=True)
class Glance:
    """A short summary of a run.

    Attributes
    ----------
    name : the folder's name
    state : the run's state
    run : its last rounds with the participations of the last one; None if they cannot be read
    round, rounds : the last complete round, and the planned number of rounds if known
    learned : the latest recorded values of the measure, ascending in time
    evaluated : the rounds of the first and last of these values
    measure : the measure
    left : the remaining time of a running run
    policy, dataset, seed : values of its configuration, as text
    begun : start of its first round, in UTC
    """

    name: str
    state: RunStatus
    run: RecordedRun | None = None
    round: int = 0
    rounds: int | None = None
    learned: list[float] = field(default_factory=list)
    left: str = ""
    measure: LedgerMeasure = ACCURACY
    evaluated: tuple[int, int] = (0, 0)
    policy: str = ""
    dataset: str = ""
    seed: str = ""
    begun: str = ""

    @property
    def shown(self) -> str:
        """The current value of the measure, with its unit."""
        return self.measure.show(self.learned[-1]) if self.learned else "–"


def unread(error: Exception) -> RunStatus:
    """Return the state of a run after an error of its ledger: waiting or unreadable."""
    if isinstance(error, AoiError) or "no such table" in str(error):
        return RunStatus("waiting", "the run has no ledger yet")
    return RunStatus("unreadable", error_line(error))


def glance(folder: Path) -> Glance:
    """Return the summary of the run in a folder, in any state."""
    try:
        return _read(folder)
    except (AoiError, OSError, *DAMAGE) as error:
        return Glance(folder.name, unread(error))


def _read(folder: Path) -> Glance:
    run = read(folder, folder.name, _ROUNDS)
    rows, rounds, measure = run.rounds, run.planned, judge(run.rounds)
    state, last = run.state, int(rows[-1]["round"]) if rows else 0
    left = ""
    if rounds and rows and state.name == "running":
        seconds = seconds_left([row["seconds"] for row in rows], max(rounds - last, 0))
        left = "" if seconds is None else duration(seconds)
    (*_, begun), seed, dataset = ledger.progress(folder / LEDGER), run.config.get("seed"), run.config.get("dataset")
    values = [(row["round"], value) for row in rows if (value := row.get(measure.column)) is not None]
    return Glance(
        folder.name,
        state,
        run,
        last,
        rounds,
        [value for _, value in values],
        left,
        measure,
        (values[0][0], values[-1][0]) if values else (0, 0),
        run.kind,
        public("dataset", dataset) if dataset else "",
        "" if seed is None else str(seed),
        "" if begun is None else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(begun)),
    )
