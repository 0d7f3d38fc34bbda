"""Somebody else's Flower app takes up age-aware participation: two lines on the server, one import on the client."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aoi_fl.lab.benchmarks.processes import simulate
from tests.adopt.adoption import FEDAVG, adopt, outcome
from tests.adopt.installation import ROOT

QUICKSTART = ROOT / "tests" / "apps" / "quickstart_numpy"
NODES = 10  # as the README has it

LOCALLY = """
import sys
sys.path.insert(0, {app!r})
from aoi_fl.engine.local_run import run_local
from quickstart_numpy.client_app import app as client_app
from quickstart_numpy.server_app import app as server_app
run_local(server_app, client_app, {{"rounds": 8, "lr": 0.2}}, nodes={nodes})
"""


@pytest.fixture
def stock(tmp_path) -> Path:
    return Path(shutil.copytree(QUICKSTART, tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__")))


@pytest.fixture
def adopted(stock) -> Path:
    """Return the app after the documented changes, and nothing but them."""
    adopt(stock, FEDAVG)
    return stock


def states(folder: Path) -> list[dict]:
    """Return the clients' states of the one run in a folder."""
    (run,) = (folder / "runs").iterdir()
    assert run.name.startswith("flwr-")
    return [json.loads(path.read_text()) for path in sorted((run / "clients").glob("*.json"))]


def test_the_stock_app_runs_on_the_local_engine_without_ours(stock, from_checkout):
    done = from_checkout.run(LOCALLY.format(app=str(stock), nodes=NODES), stock.parent)
    assert done.returncode == 0, done.stderr
    assert outcome(done.stdout)["error"] < 0.01
    assert not (stock.parent / "runs").exists()


def test_three_lines_later_its_clients_decide_for_themselves(adopted, from_checkout):
    done = from_checkout.run(LOCALLY.format(app=str(adopted), nodes=NODES), adopted.parent)
    assert done.returncode == 0, done.stderr
    found = outcome(done.stdout)
    assert found["error"] < 0.01 and list(found["losses"]) == [str(r) for r in range(1, 9)]
    # Three of ten a round: the optimal policy has each client take part every third or fourth round.
    clocks = [state["age"] for state in states(adopted.parent)]
    assert len(clocks) == NODES and all(5 <= clock["last"] <= 8 for clock in clocks)
    assert all(1 <= clock["last"] - clock["before"] <= 4 for clock in clocks)


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


def test_an_edge_device_carries_no_strategies(tmp_path):
    for room in ("aoi_fl", "science", "protocol", "flower", "client"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    # This project's own installation is kept out of the way; Flower and NumPy are found where they are.
    code = (
        f"import sys; sys.path = [{str(tmp_path)!r}] + [p for p in sys.path if p and {str(ROOT)!r} + '/typings' != p]; "
        "from aoi_fl.client import ClientApp; print(ClientApp.__module__, sys.modules['aoi_fl.science'].__file__)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) in done.stdout
