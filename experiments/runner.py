"""Playing an experiment: the units that are missing, one after another or in processes of their own, then its pages."""

import contextlib
import logging
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure

from aoi.errors import ConfigError
from experiments import drawing
from experiments.base import Experiment, Options, Row, Unit
from experiments.registry import find
from experiments.store import Store


class MissingDataError(ConfigError):
    """A data set is not there: which one, where it was looked for, and how to get it."""


def reproduce(experiment: Experiment, options: Options, out: Path, workers: int, command: str) -> Path:
    """Play what is missing of an experiment's units, write its picture and its page, and return the page.

    Parameters
    ----------
    experiment, options : what to play
    out : folder of the results
    workers : processes to play units in
    command : what the user typed, for the page

    Raises
    ------
    ConfigError
        ``out`` holds results under other settings.
    MissingDataError
        The data set is not in the data folder.
    """
    store = Store(out, experiment.name, experiment.settings(options), machine())
    if options.quick and experiment.dataset(options) == "digits":
        _say(f"{experiment.name}: its own data set is not in {options.data_dir}; --quick plays it on digits instead")
    missing = [unit for unit in experiment.units(options) if not store.has(unit)]
    if missing and (dataset := experiment.dataset(options)):
        check_data(dataset, options.data_dir)
    done = len(experiment.units(options)) - len(missing)
    if done and missing:
        _say(f"{experiment.name}: {done} of {done + len(missing)} units are there already; going on")
    progress = Progress(experiment.name, done, len(missing))
    for unit, rows, seconds in _played(experiment, missing, options, workers):
        store.add(unit, rows, seconds)
        progress.step(unit)
    return write_pages(experiment, store, out, command)


def write_pages(experiment: Experiment, store: Store, out: Path, command: str) -> Path:
    """Write an experiment's picture and page from its results."""

    def plot(figure: Figure) -> None:
        experiment.plot(store.rows, store.settings, figure)

    drawing.draw(out / f"{experiment.name}.png", plot)
    page = out / f"{experiment.name}.md"
    hours = store.seconds / 3600
    spent = f"{hours:.2f} hours" if hours >= 0.1 else f"{store.seconds:.0f} seconds"
    page.write_text(
        f"# {experiment.title}\n\n{experiment.source}.\n\n![{experiment.title}]({experiment.name}.png)\n\n"
        f"{experiment.conclude(store.rows, store.settings).paragraph}\n\n"
        f"Command: `{command}` · seeds: {_seeds(store.rows)} · {spent} of one core · {store.machine} · "
        f"numbers: [{experiment.name}.csv]({experiment.name}.csv)\n",
        encoding="utf-8",
    )
    return page


def check_data(dataset: str, folder: Path) -> None:
    """Raise MissingDataError if a data set is not there; another process looks, so that this one does not hold it."""
    if dataset == "digits":
        return
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        pool.submit(_load, dataset, folder).result()


def _load(dataset: str, folder: Path) -> None:
    from learning import data

    try:
        data.load(dataset, folder, download=False)
    except ConfigError as error:
        raise MissingDataError(
            f"{error} aoi reproduce looks where --data-dir points and downloads nothing by itself: `aoi run -c "
            f"dataset={dataset} -c data-dir={folder}` fetches it where there is a network."
        ) from error


def _played(
    experiment: Experiment, units: Sequence[Unit], options: Options, workers: int
) -> Iterator[tuple[Unit, list[Row], float]]:
    if workers == 1 or len(units) < 2:
        for unit in units:
            yield (unit, *_play(experiment.name, unit, options))
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        waiting = list(units)
        playing: dict[Future[tuple[list[Row], float]], Unit] = {}
        try:
            while waiting or playing:
                while waiting and len(playing) < workers:
                    unit = waiting.pop(0)
                    playing[pool.submit(_play, experiment.name, unit, options)] = unit
                for future in wait(playing, return_when=FIRST_COMPLETED).done:
                    yield (playing.pop(future), *future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _play(name: str, unit: Unit, options: Options) -> tuple[list[Row], float]:
    """Play one unit, and return its rows and the seconds of a core that it took."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    started = time.process_time()
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        rows = find(name).play(unit, replace(options, data_dir=options.data_dir.absolute()))
    return rows, time.process_time() - started


class Progress:
    """One line on stderr: how many units are done, and when the rest will be."""

    def __init__(self, name: str, done: int, missing: int) -> None:
        self._name, self._done, self._before, self._total = name, done, done, done + missing
        self._started = time.monotonic()

    def step(self, unit: Unit) -> None:
        """Count a finished unit."""
        self._done += 1
        each = (time.monotonic() - self._started) / (self._done - self._before)
        left = each * (self._total - self._done)
        what = ", ".join(f"{key} {value}" for key, value in unit.items())
        _say(f"{self._name}: {self._done}/{self._total} ({what}), {duration(left)} left")


def duration(seconds: float) -> str:
    """Write seconds for people: ``12 s``, ``3 min``, ``2.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def machine() -> str:
    """Name the processor and the versions that speed and rounding depend on."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    return f"{os.cpu_count()} cores {model}, Python {platform.python_version()}"


def _seeds(rows: Sequence[Row]) -> str:
    found = sorted({row["seed"] for row in rows if "seed" in row})
    if not found:
        return "none"
    return f"{found[0]} to {found[-1]}" if len(found) > 1 else str(found[0])


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
