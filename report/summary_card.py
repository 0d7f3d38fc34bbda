"""A short summary of a run from a few rows of its ledger, for the wall view and lists."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from aoi_fl.report.corruption import error_line
from aoi_fl.report.measure import ACCURACY, LedgerMeasure, judge
from aoi_fl.report.provenance import public
from aoi_fl.report.runs import Run, read
from aoi_fl.report.state import State, tell
from aoi_fl.science.errors import AoiError
from aoi_fl.server import ledger
from aoi_fl.server.folder import LEDGER
from aoi_fl.server.ledger import DAMAGE
from aoi_fl.server.observe import duration, seconds_left

if TYPE_CHECKING:
    from markupsafe import Markup

_ROUNDS = 200  # last rounds in the spark line
_NAMES = 24  # clients with names; the others are counted


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
    took_part, late, dropped : names of the last round's clients; dropped ones failed or were refused
    due : names of clients that have reserved the next round
    policy, dataset, seed : values of its configuration, as text
    begun : start of its first round, in UTC
    """

    name: str
    state: State
    run: Run | None = None
    round: int = 0
    rounds: int | None = None
    learned: list[float] = field(default_factory=list)
    left: str = ""
    took_part: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    due: list[str] = field(default_factory=list)
    measure: LedgerMeasure = ACCURACY
    evaluated: tuple[int, int] = (0, 0)
    policy: str = ""
    dataset: str = ""
    seed: str = ""
    begun: str = ""

    @property
    def ends(self) -> tuple[str, str]:
        """The smallest and the largest value, for the spark line's axis."""
        return self.measure.show(min(self.learned), 0), self.measure.show(max(self.learned), 0)

    @property
    def shown(self) -> str:
        """The current value of the measure, with its unit."""
        return self.measure.show(self.learned[-1]) if self.learned else "–"

    @property
    def spark(self) -> Markup:
        """The values as a spark line."""
        return spark(self.learned)


def unread(error: Exception) -> State:
    """Return the state of a run after an error of its ledger: waiting or unreadable."""
    if isinstance(error, AoiError) or "no such table" in str(error):
        return State("waiting", "the run has no ledger yet")
    return State("unreadable", error_line(error))


def glance(folder: Path) -> Glance:
    """Return the summary of the run in a folder, in any state."""
    try:
        return _read(folder)
    except (AoiError, OSError, *DAMAGE) as error:
        return Glance(folder.name, unread(error))


def _read(folder: Path) -> Glance:
    run = read(folder, folder.name, _ROUNDS)
    rows, parts, rounds, measure = run.rounds, run.participations, run.planned, judge(run.rounds)
    state, last = tell(folder, run.about, rows), int(rows[-1]["round"]) if rows else 0
    left = ""
    if rounds and rows and state.name == "running":
        seconds = seconds_left([row["seconds"] for row in rows], max(rounds - last, 0))
        left = "" if seconds is None else duration(seconds)
    begun, seed, dataset = ledger.begun(folder / LEDGER), run.config.get("seed"), run.config.get("dataset")
    values = [(row["round"], value) for row in rows if (value := row.get(measure.column)) is not None]
    return Glance(
        folder.name,
        state,
        run,
        last,
        rounds,
        [value for _, value in values],
        left,
        _names(parts, "trained"),
        _names(parts, "late"),
        _names(parts, "failed", "refused"),
        [str(part["name"]) for part in parts if part["next_round"] == last + 1],
        measure,
        (values[0][0], values[-1][0]) if values else (0, 0),
        run.kind,
        public("dataset", dataset) if dataset else "",
        "" if seed is None else str(seed),
        "" if begun is None else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(begun)),
    )


def _names(parts: Sequence[Mapping[str, object]], *outcomes: str) -> list[str]:
    names = [str(part["name"]) for part in parts if part["outcome"] in outcomes]
    return names if len(names) <= _NAMES else [*names[:_NAMES], f"and {len(names) - _NAMES} more"]


def spark(values: Sequence[float], width: int = 120, height: int = 32) -> Markup:
    """Return values as an SVG line, scaled to their range; "" for fewer than two.

    Examples
    --------
    >>> str(spark([1.0, 3.0], width=10, height=10)).split('points="')[1]
    '2,8 8,2"/></svg>'
    """
    from markupsafe import Markup

    if len(values) < 2:
        return Markup("")
    low, span = min(values), (max(values) - min(values)) or 1.0
    across, up = (width - 4) / (len(values) - 1), height - 4
    points = " ".join(f"{2 + i * across:.4g},{2 + up * (1 - (v - low) / span):.4g}" for i, v in enumerate(values))
    return Markup(
        f'<svg class="spark" viewBox="0 0 {width} {height}" preserveAspectRatio="none" aria-hidden="true">'
        f'<polyline points="{points}"/></svg>'
    )
