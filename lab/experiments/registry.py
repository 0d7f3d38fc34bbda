"""Every experiment by its name, in the order of ``all``, as rows of ``experiments.toml``.

A row has the class as ``code``, or what it leaves out is as in an earlier row, ``like``. The other values are described
by the class.
"""

import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path

from aoi_fl.lab.experiments.harness.base import Experiment
from aoi_fl.science.errors import ConfigError


@cache
def known() -> dict[str, Experiment]:
    """Return all experiments by name."""
    found = {}
    rows = tomllib.loads(Path(__file__).with_name("experiments.toml").read_text("utf-8"))
    for name, row in rows.items():
        rows[name] = row = rows.get(row.pop("like", ""), {}) | row
        module, _, kind = row["code"].partition(":")
        make = getattr(import_module(f"aoi_fl.lab.experiments.{module}"), kind)
        found[name] = make(name=name, **row)
    return found


def experiments() -> dict[str, Experiment]:
    """Return the experiments that are part of ``all``."""
    return {name: experiment for name, experiment in known().items() if experiment.in_all}


def find(name: str) -> Experiment:
    """Return an experiment by its name; ConfigError, with the list, for an unknown one."""
    if name not in known():
        raise ConfigError("experiment", name, (*known(), "wics", "all", "list", "summary"), "Choose one of these.")
    return known()[name]
