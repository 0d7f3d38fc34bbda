"""Somebody else's Flower app takes up age-aware participation: two lines on the server, one import on the client."""

import json
import shutil

import pytest

from aoi_fl.lab.benchmarks.processes import simulate
from tests.adopt.adoption import FEDAVG, adopt, outcome
from tests.processes import ROOT

QUICKSTART = ROOT / "tests" / "apps" / "quickstart_numpy"
NODES = 10  # as the README has it


@pytest.mark.slow
@pytest.mark.ray
def test_it_does_the_same_in_flowers_simulation(tmp_path, monkeypatch):
    app = shutil.copytree(QUICKSTART, tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__"))
    adopt(app, FEDAVG)  # the documented changes, and nothing but them
    monkeypatch.chdir(tmp_path)
    ended, log = simulate(app, {"rounds": 4}, NODES, 400)
    assert ended == "finished:completed", log
    # On a crowded machine Ray may take longer to start than the first round's deadline for answers.
    assert {"3", "4"} <= set(outcome(log)["losses"]), log
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name.startswith("flwr-")
    clocks = [json.loads(path.read_text())["age"] for path in (run / "clients").glob("*.json")]
    assert len(clocks) == NODES and {clock["last"] for clock in clocks} <= {1, 2, 3, 4}
