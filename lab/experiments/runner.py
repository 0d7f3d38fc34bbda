"""Runs an experiment: the missing units, in sequence or in worker processes, then its pages."""

import contextlib
import logging
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from aoi_fl.engine.parent import leave_with_parent, unordered
from aoi_fl.lab.experiments.harness import drawing
from aoi_fl.lab.experiments.harness.account import behind, telling, typed
from aoi_fl.lab.experiments.harness.base import Experiment, Options, Rows
from aoi_fl.lab.experiments.harness.pages import written
from aoi_fl.lab.experiments.harness.store import Store
from aoi_fl.lab.experiments.registry import find, known
from aoi_fl.science.errors import ConfigError


class MissingDataError(ConfigError):
    """A data set is missing: its name, the folder, and the remedy."""


def reproduce(experiment: Experiment, options: Options, out: Path, workers: int) -> Path:
    """Run an experiment's missing units, write its picture and page into folder ``out``, and return the page.

    Raises ConfigError if ``out`` has results under other settings, or is not writable; MissingDataError, before any
    unit runs, if a data set is missing.
    """
    store = Store(out, experiment.name, experiment.kept_under(options), machine())
    store.begin(typed(experiment.name, options), experiment.units(options))
    tell = _nothing if options.quiet else _say
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
    if missing:
        tell(f"{experiment.name}: {len(missing)} units to run")
    started, play = time.monotonic(), partial(_play, experiment.name, options)
    for count, (unit, rows, seconds) in enumerate(unordered(play, missing, workers), 1):
        store.add(unit, rows, seconds)
        left = (time.monotonic() - started) / count * (len(missing) - count)
        which = ", ".join(f"{key} {value}" for key, value in unit.items())
        tell(f"{experiment.name}: {done + count}/{done + len(missing)} ({which}), {duration(left)} left")
    store.arrange(experiment.units(options))
    return write_pages(experiment, store, out)


def _nothing(line):
    """Print nothing."""


def _say(line):
    """Print a line on stderr at once."""
    print(line, file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Return seconds for people: ``12 s``, ``3 min``, ``2.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def write_pages(experiment: Experiment, store: Store, out: Path) -> Path:
    """Write an experiment's picture and page from its results, if they allow conclusions, and return the page."""
    if rows := telling(experiment, store):
        draw(experiment, store, rows, out)
    return write_page(experiment.home, out, {experiment.name: store})


def draw(experiment: Experiment, store: Store, rows: Rows, out: Path) -> None:
    """Draw an experiment's picture from its rows."""
    drawing.draw(out / f"{experiment.name}.png", partial(experiment.plot, rows, store.settings))


def write_page(home: str, out: Path, stores: Mapping[str, Store]) -> Path:
    """Write the page of all experiments that share it, one a section, from results and those in ``stores``.

    A page outside the folder belongs to the documents, and is not written.
    """
    page, parts = out / home, []
    for name, experiment in sorted(known().items(), key=lambda of: f"{of[0]}.md" != home):
        store = stores.get(name) or (Store.recorded(out, name) if experiment.home == home else None)
        rows = telling(experiment, store) if store else []
        if store and rows and page.parent == out:
            shown = written(experiment, experiment.conclude(rows, store.settings))
            parts.append(
                f"{'##' if parts else '#'} {experiment.title}\n\n{shown}{behind(experiment, store)} · "
                f"numbers: [{name}.csv]({name}.csv)\n"
            )
    if parts:
        page.write_text("\n".join(parts), encoding="utf-8")
    return page


def rewrite(out: Path) -> None:
    """Write the pictures and pages of all results in a folder anew."""
    for name, experiment in known().items():
        store = Store.recorded(out, name)
        if store is not None and (rows := telling(experiment, store)):
            draw(experiment, store, rows, out)
    for home in dict.fromkeys(experiment.home for experiment in known().values()):
        write_page(home, out, {})


def check_data(datasets: Sequence[str], folder: Path) -> None:
    """Raise MissingDataError if a data set is missing; another process looks, so this one keeps no data."""
    downloaded = [dataset for dataset in datasets if dataset != "digits"]
    if downloaded:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), leave_with_parent) as pool:
            pool.submit(_load, downloaded, folder).result()


def _load(datasets, folder):
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


def _play(name, options, unit):
    """Run one unit, and return it with its rows and its seconds of a core."""
    import aoi_fl.flower.messages  # noqa: F401  # Flower sets its log's level when it is first imported

    logging.getLogger("flwr").setLevel(logging.ERROR)
    experiment, started = find(name), time.process_time()
    options = replace(options, data_dir=options.data_dir.absolute(), version=experiment.version)
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        rows = experiment.play(unit, options)
    return unit, rows, time.process_time() - started


def machine() -> str:
    """Return the processor and the versions that affect speed and rounding."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    return f"{os.cpu_count()} cores {model}, Python {platform.python_version()}"
