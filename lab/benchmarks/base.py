"""Rows of the benchmarks' table: each compares a number with a reference of the same run."""

import gc
import multiprocessing
import statistics
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "benchmarks"
APP = ROOT / "lab" / "benchmarks" / "apps" / "exchange"  # around the functions that are measured


_APART = 0.02  # float32 rounding of two trainings, relative to the change by training


class Skipped(Exception):
    """A benchmark cannot run here, or not to its end; its rows so far count."""


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes
    ----------
    what : the measured quantity
    reference : the reference in the same run
    limit : the largest allowed value of ``measured``; None: no limit
    measured : the number, in ``unit``; a ratio if the unit is ×
    unit : its unit
    note : an explanation of the number
    details : the ratio of process times, and all that a fleet has measured
    """

    what: str
    reference: str
    limit: float | None
    measured: float
    unit: str = "×"
    note: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def verdict(self):
        """Return whether the limit is met, or by how much it is missed."""
        if self.limit is None:
            return "–"
        return "met" if self.measured <= self.limit else f"missed, {self.measured / self.limit:.2g} times the limit"


@dataclass(frozen=True)
class Times:
    """Seconds of repeated calls: wall-clock time and this process's CPU time."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def seconds(self):
        """The median of the wall-clock time."""
        return statistics.median(self.wall)

    @property
    def process(self):
        """The median of the CPU time, which depends less on the machine's load."""
        return statistics.median(self.cpu)

    def after_first(self):
        """Return the times without the first, in which much is new."""
        return Times(self.wall[1:], self.cpu[1:])


def alternate(*functions, repeats=9):
    """Call functions in turns, so that disturbances affect all; the first calls do not count."""
    times = [Times() for _ in functions]
    for turn in range(repeats + 1):
        for function, measured in zip(functions, times, strict=True):
            gc.collect()
            with stopwatch(measured if turn else Times()):
                function()
    return times


@contextmanager
def stopwatch(times):
    """Add the duration of a block."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    times.wall.append(time.perf_counter() - wall)
    times.cpu.append(time.process_time() - cpu)


def timed(function, times):
    """Wrap a function to record the time of each call."""

    @wraps(function)
    def measured(*args):
        with stopwatch(times):
            return function(*args)

    return measured


@contextmanager
def watched(look):
    """Yield a list to which another thread adds the values of ``look()``, again and again during the block."""
    found, over = [], threading.Event()

    def watch():
        while not over.is_set():
            found.extend(look())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()


def check_alike(first, ours, theirs):
    """Raise if two trainings from one model differ by more than rounding, for instance by a missed batch."""
    way, apart = (
        np.sqrt(sum(float(np.sum((ours[name] - other[name]) ** 2)) for name in first)) for other in (first, theirs)
    )
    if not apart <= _APART * way:
        raise RuntimeError(f"the two did not train alike: they end {apart:.3g} apart after a way of {way:.3g}")


def ratio_row(what, reference, limit, ours, theirs, elsewhere=False, **more):
    """Return a row with a ratio of median wall-clock times.

    It also has the ratio of CPU times, unless the reference works ``elsewhere``, in processes without a measured time.
    """
    details = {} if elsewhere else {"process-ratio": round(ours.process / theirs.process, 4)}
    return Row(what, reference, limit, ours.seconds / theirs.seconds, details=details, **more)


def in_a_process(function, *arguments):
    """Return what a function returns in a new process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def peak_memory(pid="self"):
    """Return the peak memory, in MiB, of a process since the start of its program.

    ``ru_maxrss`` is no alternative: on Linux a child starts with its parent's value.
    """
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024


def need(data, name):
    """Raise Skipped if a data set is not in the data folder."""
    from aoi_fl.learning import data as datasets
    from aoi_fl.science.errors import AoiError

    try:
        datasets.load(name, data, download=False)
    except AoiError as error:
        raise Skipped(f"{name}: {error}") from error
