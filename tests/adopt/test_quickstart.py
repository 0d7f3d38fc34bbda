"""Somebody else's Flower app takes up age-aware participation: two lines on the server, one import on the client."""

import json
import shutil
from pathlib import Path

import pytest

from aoi_fl.lab.benchmarks.processes import simulate
from tests.adopt.adoption import FEDAVG, adopt, outcome
from tests.adopt.installation import ROOT

QUICKSTART = ROOT / "tests" / "apps" / "quickstart_numpy"
NODES = 10  # as the README has it


@pytest.fixture
def stock(tmp_path):
    return Path(shutil.copytree(QUICKSTART, tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__")))


@pytest.fixture
def adopted(stock):
    """Return the app after the documented changes, and nothing but them."""
    adopt(stock, FEDAVG)
    return stock


def states(folder):
    """Return the clients' states of the one run in a folder."""
    (run,) = (folder / "runs").iterdir()
    assert run.name.startswith("flwr-")
    return [json.loads(path.read_text()) for path in sorted((run / "clients").glob("*.json"))]


@pytest.mark.slow
@pytest.mark.ray
def test_it_does_the_same_in_flowers_simulation(adopted, monkeypatch):
    monkeypatch.chdir(adopted.parent)
    ended, log = simulate(adopted, {"rounds": 4}, NODES, 400)
    assert ended == "finished:completed", log
    # On a crowded machine Ray may take longer to start than the first round's deadline for answers.
    assert {"3", "4"} <= set(outcome(log)["losses"]), log
    clocks = [state["age"] for state in states(adopted.parent)]
    assert len(clocks) == NODES and {clock["last"] for clock in clocks} <= {1, 2, 3, 4}
