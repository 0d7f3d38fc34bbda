"""Runs an experiment: the missing units, in sequence or in worker processes, then its pages."""

import contextlib
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from aoi_fl.lab.experiments.harness import drawing
from aoi_fl.lab.experiments.harness.account import seeds, telling, typed
from aoi_fl.lab.experiments.harness.base import Experiment, Options
from aoi_fl.lab.experiments.harness.federation import quiet
from aoi_fl.lab.experiments.harness.pages import render
from aoi_fl.lab.experiments.harness.processor import processor
from aoi_fl.lab.experiments.harness.store import Store
from aoi_fl.lab.experiments.registry import find, known
from aoi_fl.science.errors import ConfigError
from aoi_fl.server.engine.parent import leave_with_parent, unordered
from aoi_fl.server.observe import duration


class MissingDataError(ConfigError):
    """A data set is missing: its name, the folder, and the remedy."""


def reproduce(experiment: Experiment, options: Options, out: Path, workers: int) -> Path:
    """Run an experiment's missing units, write its picture and page into folder ``out``, and return the page.

    Raises ConfigError if ``out`` has results under other settings, or is not writable; MissingDataError, before any
    unit runs, if a data set is missing.
    """
    store, units = Store(out, experiment.name, experiment.kept_under(options), machine()), experiment.units(options)
    store.begin(typed(experiment.name, options), units)
    tell = (lambda line: None) if options.quiet else partial(print, file=sys.stderr, flush=True)
    missing = [unit for unit in units if unit not in store.units]
    done = len(units) - len(missing)
    if missing:
        check_data(experiment.datasets(options), options.data_dir)
        store.check_place()
        if done:
            tell(f"{experiment.name}: {done} of {len(units)} units are there already; going on")
        tell(f"{experiment.name}: {len(missing)} units to run")
    started, play = time.monotonic(), partial(_play, experiment.name, options)
    for count, (unit, rows, seconds) in enumerate(unordered(play, missing, workers), 1):
        store.add(unit, rows, seconds)
        left = (time.monotonic() - started) / count * (len(missing) - count)
        which = ", ".join(f"{key} {value}" for key, value in unit.items())
        tell(f"{experiment.name}: {done + count}/{len(units)} ({which}), {duration(left)} left")
    store.arrange(units)
    draw(experiment, store, out)
    return write_page(experiment.home, out)


def draw(experiment: Experiment, store: Store, out: Path) -> None:
    """Draw an experiment's picture from its results, if they allow conclusions."""
    if rows := telling(experiment, store):
        drawing.draw(out / f"{experiment.name}.png", partial(experiment.plot, rows, store.settings))


def write_page(home: str, out: Path) -> Path:
    """Write the page of all experiments that share it, one a section, from their results.

    A page outside the folder belongs to the documents, and is not written.
    """
    page, sections = out / home, []
    there = [experiment for experiment in known().values() if experiment.home == home and page.parent == out]
    for experiment in sorted(there, key=lambda one: f"{one.name}.md" != home):
        store = Store.recorded(out, experiment.name)
        if store and (rows := telling(experiment, store)):
            sections.append((experiment, store, experiment.conclude(rows, store.settings), seeds(rows)))
    if sections:
        page.write_text(render("page.md", sections=sections), encoding="utf-8")
    return page


def rewrite(out: Path) -> None:
    """Write the pictures and pages of all results in a folder anew."""
    for name, experiment in known().items():
        if store := Store.recorded(out, name):
            draw(experiment, store, out)
    for home in dict.fromkeys(experiment.home for experiment in known().values()):
        write_page(home, out)


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
    quiet()
    experiment, started = find(name), time.process_time()
    options = replace(options, data_dir=options.data_dir.absolute(), version=experiment.version)
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        rows = experiment.play(unit, options)
    return unit, rows, time.process_time() - started


def machine() -> str:
    """Return the processor and the versions that affect speed and rounding."""
    return f"{os.cpu_count()} cores {processor()}, Python {platform.python_version()}"
