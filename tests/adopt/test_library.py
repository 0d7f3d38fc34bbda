"""The library imports without PyTorch, SciPy, and the rooms that run it."""

import json
import shutil

from tests.processes import ROOT, python

LIBRARY = ("science", "protocol", "strategies", "client")
ABOVE = ("server", "report", "cli", "docker", "lab")
SCRIPT = f"""
import importlib, json, pkgutil, sys
for room in {LIBRARY!r}:
    package = importlib.import_module(f"aoi_fl.{{room}}")
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
print(json.dumps(sorted(sys.modules)))
"""


def test_library_imports_nothing_above_it():
    loaded = set(json.loads(python("-c", SCRIPT).stdout.splitlines()[-1]))
    assert {f"aoi_fl.{room}" for room in LIBRARY} <= loaded
    assert not loaded & {"torch", "scipy", *(f"aoi_fl.{room}" for room in ABOVE)}


def test_an_edge_device_carries_no_strategies(tmp_path):
    for room in ("aoi_fl", "science", "protocol", "flower", "client"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    # This project's own installation is kept out of the way; Flower and NumPy are found where they are.
    code = (
        f"import sys; sys.path = [{str(tmp_path)!r}] + [p for p in sys.path if p and {str(ROOT)!r} + '/typings' != p]; "
        "from aoi_fl.client import ClientApp; print(ClientApp.__module__, sys.modules['aoi_fl.science'].__file__)"
    )
    assert str(tmp_path) in python("-c", code, cwd=tmp_path).stdout
