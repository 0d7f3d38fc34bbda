"""Runs with data and models of one's own, from the command to the ledger; and what docs/own.md shows, as written."""

import json
import re
import shlex

import numpy as np
import pytest

from aoi_fl.learning import data, working
from aoi_fl.learning.examples import tensors
from aoi_fl.report.runs import load
from aoi_fl.report.summary import sentence
from tests.ledgers import rounds_of
from tests.processes import ROOT
from tests.report.recorded import drawn

GUIDE = (ROOT / "docs/own.md").read_text()
BLOCKS = re.findall(r'^```(python|bash)(?: title="([^"]*)")?\n(.*?)^```', GUIDE, re.MULTILINE | re.DOTALL)
RUN = "run -c preset=papers --clients 6 --per-round 3 --rounds 3 --run-name own -c local-epochs=1"
RNG = np.random.default_rng(5)
X = RNG.normal(size=(90, 4)).astype(np.float32)
MODEL = """
import torch
from torch import nn

def make(shape, outputs):
    return nn.Sequential(nn.Linear(*shape, 8), nn.Dropout(0.5), nn.Linear(8, outputs))

def wide(shape, outputs):
    return nn.Linear(*shape, outputs + 1)
"""


@pytest.fixture(autouse=True)
def fresh():
    """Nothing that another test has loaded under the same names."""
    yield
    for cache in (data._load, working.model, tensors):
        cache.cache_clear()


@pytest.fixture
def table(tmp_path):
    """Write a regression and a model beside it."""
    y = X @ np.array([1, -1, 2, 0.5], np.float32)
    np.savez(tmp_path / "own.npz", train_x=X[:60], train_y=y[:60], test_x=X[60:], test_y=y[60:])
    (tmp_path / "mine.py").write_text(MODEL)
    return tmp_path


def test_the_guide_runs_as_it_is_written(aoi, tmp_path):
    for kind, title, block in BLOCKS:
        if title:
            (tmp_path / title).write_text(block)
        if kind == "python":
            exec(block, {"__name__": "guide"})
        else:
            program, *words = shlex.split(block)
            assert program == "aoi" and aoi(*words)[0] == 0
    found = {name: rounds_of(tmp_path / "runs" / name) for name in ("iris", "diabetes", "mine")}
    assert found["iris"][-1]["test_accuracy"] > 0.85 and found["iris"][-1]["test_rmse"] is None
    for name in ("diabetes", "mine"):
        assert found[name][-1]["test_rmse"] < 0.85 and found[name][-1]["test_accuracy"] is None


def test_a_regression_is_named_as_what_it_is_everywhere(aoi, table):
    status, out, err = aoi(f"{RUN} --dataset npz:own.npz -c evaluate-clients=2 --json")
    told, rounds = json.loads(out), rounds_of(table / "runs/own")
    assert status == 0 and told["test_rmse"] == rounds[-1]["test_rmse"] and "test_accuracy" not in told
    assert all(row["test_loss"] == pytest.approx(row["test_rmse"] ** 2) for row in rounds)
    assert all(row["client_rmse"] > 0 and row["client_accuracy"] is None for row in rounds)
    assert re.search(r"^round 3/3 .* \| rmse \d", err, re.MULTILINE) and "accuracy" not in err
    run = load(table / "runs/own", "own")
    assert f"test RMSE {rounds[-1]['test_rmse']:.4g}" in sentence(run)
    charts = drawn(run)
    assert "test-accuracy" not in charts and charts["test-rmse"].data[0]["x"] == [0, 1, 2, 3]
    assert aoi("report", "own")[0] == 0


@pytest.mark.parametrize(
    ("key", "match"),
    [
        ("model=python:mine", "model is 'python:mine', but must be one of auto, lr, svm, 2nn, cnn, python:MODULE"),
        ("model=python:mine.py:make", "rite the module without .py: python:mine:make"),
        ("model=python:mine:wide", "usable: given 1 of the examples it gives shape (1, 2), and (1, 1) is"),
        ("model=cnn", "model is 'cnn', but must be 2nn or lr for examples of shape (4,)"),
        ("partition=dirichlet", "partition is 'dirichlet', but must be iid for a regression"),
    ],
)
def test_what_does_not_go_together_never_starts(refusal, table, key, match):
    assert match in refusal(f"{RUN} -c dataset=npz:own.npz -c {key}")
    assert not (table / "runs/own/ledger.sqlite").exists()
