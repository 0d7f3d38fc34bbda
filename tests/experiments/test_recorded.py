"""Recorded units that need no data set have the same rows when they are played again."""

import json
from functools import cache
from operator import itemgetter

import pytest

from aoi_fl.lab.experiments.harness.base import Options
from aoi_fl.lab.experiments.harness.store import Store
from aoi_fl.lab.experiments.registry import find
from tests.processes import ROOT

RESULTS = ROOT / "docs/results"
NAMES = (
    "theory",
    "remarks",
    "sigma",
    "load-variance",
    "intervals",
    "windows",
    "start",
    "churn",
    "dropout",
    "wics-ages",
    "wics-exact",
    "wics-packing",
    "traces",
    "privacy-error",
)


def _units():
    """Return the shortest unit of each policy, part or kind of each experiment; a long one is a slow test."""
    found = {}
    for name in NAMES:
        for known in json.loads((RESULTS / f"{name}.json").read_text())["units"]:
            kind = name, *(value for value in known["unit"].values() if isinstance(value, str))
            found[kind] = min(known, found.get(kind, known), key=itemgetter("seconds"))
    del found["traces", "trace"]  # of a file that the repository lacks
    for kind, known in found.items():
        marks = [pytest.mark.slow] if known["seconds"] > 0.5 else []
        yield pytest.param(kind[0], known["unit"], id=" ".join(kind), marks=marks)


@cache
def _rows(name):
    return Store.recorded(RESULTS, name).rows


@pytest.mark.parametrize(("name", "unit"), [*_units()])
def test_a_recorded_unit_is_played_again(name, unit):
    recorded = [row for row in _rows(name) if unit.items() <= row.items()]
    rows = [{**unit, **row} for row in find(name).play(unit, Options())]
    assert len(rows) == len(recorded)
    for row, kept in zip(rows, recorded, strict=True):
        numbers = {column: value for column, value in row.items() if isinstance(value, int | float)}
        assert {column: kept[column] for column in numbers} == pytest.approx(numbers, rel=1e-6, abs=1e-12)
        assert {**kept, **numbers}.items() >= row.items()
