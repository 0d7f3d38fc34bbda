"""Playing an experiment: the units that are missing, one after another or in processes of their own, then its pages."""

import contextlib
import logging
import multiprocessing
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from aoi_fl.engine.parent import leave_with_parent
from aoi_fl.experiments.harness import drawing
from aoi_fl.experiments.harness.account import behind, but_seed, telling, typed
from aoi_fl.experiments.harness.base import Experiment, Options, Row, Unit
from aoi_fl.experiments.harness.pages import written
from aoi_fl.experiments.harness.progress import Progress, say
from aoi_fl.experiments.harness.store import Store
from aoi_fl.experiments.harness.watch import Watch
from aoi_fl.experiments.registry import find, known
from aoi_fl.science.errors import ConfigError

_LOOK = 1.0  # seconds between two looks at what the units played elsewhere report


class MissingDataError(ConfigError):
    """A data set is not there: which one, where it was looked for, and how to get it."""


def reproduce(experiment: Experiment, options: Options, out: Path, workers: int) -> Path:
    """Play what is missing of an experiment's units, write its picture and its page, and return the page.

    Parameters
    ----------
    experiment, options : what to play
    out : folder of the results
    workers : processes to play units in

    Raises
    ------
    ConfigError
        ``out`` holds results under other settings, or cannot be written.
    MissingDataError
        A data set is not in the data folder; nothing has been played then.
    """
    command = typed(experiment.name, options)
    store = Store(out, experiment.name, experiment.kept_under(options), machine())
    tell = _nothing if options.quiet else say
    own, played = experiment.datasets(replace(options, quick=False)), experiment.datasets(options)
    if "digits" in played and "digits" not in own:
        tell(f"{experiment.name}: --quick plays it on digits in place of {' and '.join(own)}")
    missing = [unit for unit in experiment.units(options) if not store.has(unit)]
    if missing:
        check_data(experiment.datasets(options), options.data_dir)
        experiment.check(options)
        store.check_place()
    done = len(experiment.units(options)) - len(missing)
    if done and missing:
        tell(f"{experiment.name}: {done} of {done + len(missing)} units are there already; going on")
    progress = Progress(experiment.name, done, len(missing), expected_seconds(experiment, options, workers), tell=tell)
    for unit, rows, seconds in _played(experiment, missing, options, workers, progress):
        store.add(unit, rows, seconds)
        progress.step(unit)
    store.arrange(experiment.units(options))
    return write_pages(experiment, store, out, command)


def _nothing(line: str) -> None:
    """Keep a line to itself."""


def write_pages(experiment: Experiment, store: Store, out: Path, command: str) -> Path:
    """Write an experiment's picture and page from its results, if they tell anything yet, and return the page.

    The page has the commands that play what is in the store, however it came about; ``command`` if none does.
    """

    def plot(figure: Figure) -> None:
        experiment.plot(rows, store.settings, figure)

    page, rows = out / f"{experiment.name}.md", telling(experiment, store)
    if not rows:
        return page
    drawing.draw(out / f"{experiment.name}.png", plot)
    shown = written(experiment, experiment.conclude(rows, store.settings))
    page.write_text(
        f"# {experiment.title}\n\n{shown}{behind(experiment, store, command)} · numbers: "
        f"[{experiment.name}.csv]({experiment.name}.csv)\n",
        encoding="utf-8",
    )
    return page


def rewrite(out: Path) -> None:
    """Write the pictures and pages of all results in a folder anew; nothing is played."""
    for name, experiment in known().items():
        store = Store.recorded(out, name)
        if store is not None:
            write_pages(experiment, store, out, f"aoi reproduce {name}")


def check_data(datasets: Sequence[str], folder: Path) -> None:
    """Raise MissingDataError if any is not there; another process looks, so that this one does not hold them."""
    downloaded = [dataset for dataset in datasets if dataset != "digits"]
    if downloaded:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), leave_with_parent) as pool:
            pool.submit(_load, downloaded, folder).result()


def _load(datasets: Sequence[str], folder: Path) -> None:
    from aoi_fl.learning import data

    for dataset in datasets:
        try:
            data.load(dataset, folder, download=False)
        except ConfigError as error:
            raise MissingDataError(
                f"data set {dataset}",
                error.value,
                error.allowed,
                f"Set --data-dir to its folder, or download it: aoi run -c dataset={dataset} -c data-dir={folder}",
            ) from error


def expected_seconds(experiment: Experiment, options: Options, workers: int) -> float | None:
    """Return the seconds a unit will take by the experiment's own account; None for sizes or models not in it."""
    full = Options(data_dir=options.data_dir)
    planned = experiment.units(full)
    known = {but_seed(unit) for unit in planned}
    told = experiment.settings(options) == experiment.settings(full) and all(
        but_seed(unit) in known for unit in experiment.units(options)
    )
    return 60 * experiment.minutes / len(planned) / workers if told else None


def _played(
    experiment: Experiment, units: Sequence[Unit], options: Options, workers: int, progress: Progress
) -> Iterator[tuple[Unit, list[Row], float]]:
    if workers == 1 or len(units) < 2:
        for unit in units:
            yield (unit, *_play(experiment.name, unit, options, progress.round))
        return
    spawned = multiprocessing.get_context("spawn")
    told = spawned.SimpleQueue()
    with ProcessPoolExecutor(workers, spawned, _begin, (told,)) as pool:
        waiting = list(units)
        playing: dict[Future[tuple[list[Row], float]], Unit] = {}
        try:
            while waiting or playing:
                while waiting and len(playing) < workers:
                    unit = waiting.pop(0)
                    playing[pool.submit(_play_reporting, experiment.name, unit, options)] = unit
                finished = wait(playing, _LOOK, return_when=FIRST_COMPLETED).done
                while not told.empty():
                    progress.round(*told.get())
                for future in finished:
                    yield (playing.pop(future), *future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _play(
    name: str, unit: Unit, options: Options, report: Callable[[Unit, int, int, str], None]
) -> tuple[list[Row], float]:
    """Play one unit, and return its rows and the seconds of a core that it took."""
    import aoi_fl.flower.messages  # noqa: F401  # Flower sets its log's level when it is first imported

    logging.getLogger("flwr").setLevel(logging.ERROR)
    experiment, watch = find(name), Watch(lambda *reached: report(unit, *reached))
    options = replace(options, data_dir=options.data_dir.absolute(), version=experiment.version, watch=watch)
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        rows = experiment.play(unit, options)
    return rows, watch.seconds


_told: Any = None  # in a process of the pool: the queue to the process that prints


def _begin(told: Any) -> None:
    global _told
    _told = told
    leave_with_parent()


def _play_reporting(name: str, unit: Unit, options: Options) -> tuple[list[Row], float]:
    return _play(name, unit, options, lambda *round_: _told.put(round_))


def machine() -> str:
    """Name the processor and the versions that speed and rounding depend on."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    return f"{os.cpu_count()} cores {model}, Python {platform.python_version()}"
