"""The library imports without PyTorch, SciPy, and the rooms that run it."""

import json
import subprocess
import sys

LIBRARY = ("science", "protocol", "strategies", "client")
ABOVE = ("server", "engine", "report", "cli", "docker", "lab")
SCRIPT = f"""
import importlib, json, pkgutil, sys
for room in {LIBRARY!r}:
    package = importlib.import_module(f"aoi_fl.{{room}}")
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
print(json.dumps(sorted(sys.modules)))
"""


def test_library_imports_nothing_above_it():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=120)
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert {f"aoi_fl.{room}" for room in LIBRARY} <= loaded
    assert not loaded & {"torch", "scipy", *(f"aoi_fl.{room}" for room in ABOVE)}
