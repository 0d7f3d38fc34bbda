"""Every experiment by its name, each a file of ``rows/``, in the order of ``all``.

A row has the class as ``code``, or what it leaves out, in its tables too, is as in an earlier row, ``like``. The other
values are described by the class, and in ``rows/common.toml``.
"""

import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path

from aoi_fl.lab.experiments.harness.base import Experiment
from aoi_fl.science.errors import ConfigError

_WHOLE = {"entrants", "arms", "measures"}  # tables that leave nothing out


@cache
def known() -> dict[str, Experiment]:
    """Return all experiments by name."""
    found, rows = {}, {}
    common = _row("common")
    for name in common["order"]:
        row = _row(name)
        rows[name] = row = _filled_up(row, rows.get(row.pop("like", ""), {}))
        if "measures" in row:
            row["measures"] = {
                column: common["measures"].get(column, {}) | of for column, of in row["measures"].items()
            }
        module, _, kind = row["code"].partition(":")
        make = getattr(import_module(f"aoi_fl.lab.experiments.{module}"), kind)
        found[name] = make(name=name, **row)
    return found


def _row(name):
    return tomllib.loads((Path(__file__).with_name("rows") / f"{name}.toml").read_text("utf-8"))


def _filled_up(row, like):
    """Return a table with what it leaves out from another, and so its own tables."""
    own = {
        key: _filled_up(value, like.get(key, {})) if isinstance(value, dict) and key not in _WHOLE else value
        for key, value in row.items()
    }
    return like | own


def experiments() -> dict[str, Experiment]:
    """Return the experiments that are part of ``all``."""
    return {name: experiment for name, experiment in known().items() if experiment.in_all}


def find(name: str) -> Experiment:
    """Return an experiment by its name; ConfigError, with the list, for an unknown one."""
    if name not in known():
        raise ConfigError("experiment", name, (*known(), "wics", "all", "list", "summary"), "Choose one of these.")
    return known()[name]
