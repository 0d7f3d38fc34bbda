"""Apps of the shape of Flower's own examples: as they are, and after the changes that docs/adopt.md shows.

Each is played on the local engine, ten clients, and must learn as much as it did.
"""

import importlib
import json
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

from aoi_fl.server.engine.local_run import run_local
from tests.adopt.adoption import adopt, copied, outcome, rewrite
from tests.adopt.table import ROWS

NODES = 10


@pytest.fixture(params=ROWS)
def row(request):
    return ROWS[request.param]


@pytest.fixture
def stock(row, tmp_path, monkeypatch):
    """Return a folder that holds the app as it is, for this test to change and import."""
    folder = copied(row.app, tmp_path)
    for phrase in row.server.items():
        rewrite(folder / row.app / "server_app.py", *phrase)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(tmp_path)
    return folder


def play(row, capsys):
    """Play the app and return its result."""
    if row.app == "xgboost_bagging":
        pytest.importorskip("xgboost", reason="the extra dev brings xgboost, where there is a wheel of it")
    server, client = (importlib.import_module(f"{row.app}.{half}_app").app for half in ("server", "client"))
    with threadpool_limits(1):  # the tests' processes share the cores
        run_local(server, client, {"seed": 1, **row.config}, nodes=NODES)
    return outcome(capsys.readouterr().out)


@pytest.mark.parametrize("row", ["quickstart-numpy", "FedAvgM"], indirect=True)
def test_the_stock_app_learns(row, stock, capsys):
    assert play(row, capsys)["error"] < row.error
    assert not Path("runs").exists()


def test_the_adopted_app_learns_and_its_clients_keep_ages(row, stock, capsys):
    adopt(stock, row.chapter, row.names)
    result = play(row, capsys)
    assert result["error"] < row.error
    if "evaluated" in result:
        assert len(result["evaluated"]) == row.config["rounds"]
    (run,) = Path("runs").iterdir()
    states = [json.loads(path.read_text()) for path in (run / "clients").glob("*.json")]
    assert states and any(state["age"]["last"] == row.config["rounds"] for state in states)
