"""What a benchmark is: rows of a table, each a number beside a reference measured in the same run."""

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "benchmarks"


class Skipped(Exception):
    """A benchmark cannot run here, or not to its end; the message says why. What it measured before counts."""


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes
    ----------
    what : what is measured
    reference : what it is measured against, in the same run
    limit : the most that ``measured`` may be; None where nothing is promised
    measured : the number, in ``unit``; a ratio where the unit is ×
    unit : its unit
    note : what a reader must know to read the number
    details : the raw numbers, wall-clock and process time beside each other
    """

    what: str
    reference: str
    limit: float | None
    measured: float
    unit: str = "×"
    note: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """Say whether the limit is kept, and if not by how much it is missed."""
        if self.limit is None:
            return "–"
        return "met" if self.measured <= self.limit else f"missed, {self.measured / self.limit:.2g} times the limit"


@dataclass(frozen=True)
class Times:
    """Seconds of repeated calls: on the clock, and of this process on a processor."""

    wall: list[float]
    cpu: list[float]

    @property
    def seconds(self) -> float:
        """The median on the clock."""
        return statistics.median(self.wall)

    @property
    def process(self) -> float:
        """The median of process time, which a busy machine disturbs less."""
        return statistics.median(self.cpu)

    def summary(self) -> dict[str, float]:
        """Return both medians and the fastest, in seconds."""
        return {
            "wall-median": round(self.seconds, 6),
            "wall-min": round(min(self.wall), 6),
            "process-median": round(self.process, 6),
        }


def alternate(*functions: Callable[[], object], repeats: int = 9) -> list[Times]:
    """Call functions in turns, after one call each that does not count, so that a disturbance meets all of them."""
    times = [Times([], []) for _ in functions]
    for turn in range(repeats + 1):
        for function, found in zip(functions, times, strict=True):
            gc.collect()
            wall, cpu = time.perf_counter(), time.process_time()
            function()
            if turn:
                found.wall.append(time.perf_counter() - wall)
                found.cpu.append(time.process_time() - cpu)
    return times


@contextmanager
def stopwatch(times: Times) -> Iterator[None]:
    """Add the time that a block takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    times.wall.append(time.perf_counter() - wall)
    times.cpu.append(time.process_time() - cpu)


def ratio_row(
    what: str, reference: str, limit: float | None, ours: Times, theirs: Times, elsewhere: bool = False, **more: Any
) -> Row:
    """Return a row whose number is a ratio of medians on the clock.

    The ratio of process times is kept beside it, but where the reference does its work ``elsewhere``, in processes
    whose time nobody took.
    """
    details = {"ours": ours.summary(), "reference": theirs.summary(), **more.pop("details", {})}
    if not elsewhere:
        details["process-ratio"] = round(ours.process / theirs.process, 4)
    return Row(what, reference, limit, ours.seconds / theirs.seconds, details=details, **more)


def peak_memory(pid: int | str = "self") -> float:
    """Return the most memory, in MiB, that a process, by default this one, ever had in RAM since it began its program.

    Not ``ru_maxrss``: on Linux a child begins with its parent's.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text("ascii")
    except OSError:
        raise Skipped("the most memory that a process held is read from /proc, which this system lacks") from None
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024


def need(data: Path, name: str) -> None:
    """Raise Skipped where a data set is not in the data folder."""
    from aoi_fl.learning import data as datasets
    from aoi_fl.science.errors import AoiError

    try:
        datasets.load(name, data, download=False)
    except AoiError as error:
        raise Skipped(f"{name}: {error}") from error
