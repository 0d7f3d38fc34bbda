"""The examples in docstrings say what the code does."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

from tests.processes import ROOT

ROOMS = (
    "client",
    "config",
    "lab/experiments",
    "lab/privacy",
    "lab/rivals",
    "lab/simulated_time",
    "protocol",
    "report",
    "science",
)
PLACES = [ROOT / room for room in (*ROOMS, "server", "strategies")]
MODULES = [path for place in PLACES for path in place.rglob("*.py") if ">>>" in path.read_text()]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples(path: Path) -> None:
    name = ".".join(("aoi_fl", *path.relative_to(ROOT).with_suffix("").parts))
    assert not doctest.testmod(import_module(name)).failed
