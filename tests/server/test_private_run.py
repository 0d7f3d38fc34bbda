"""Private runs by their run keys: what is refused before anything starts, and what a run leaves behind."""

import shutil
import time
from contextlib import closing

import numpy as np
import pytest
from safetensors.numpy import load_file

from aoi_fl.cli.keys import pairs
from aoi_fl.config.run import RunConfig
from aoi_fl.learning.task import Task
from aoi_fl.report.page import write
from aoi_fl.science.errors import ConfigError, ResumeError
from aoi_fl.server.ledger import Ledger
from aoi_fl.strategies.aggregation.private import ByPrivateMean
from tests.ledgers import about_of, clients_of, parts_of, rounds_of
from tests.refusals import refused
from tests.server.interrupted import PRIVATE, run_here

BANDED = {"policy": "markov-optimal", "privacy": "banded", "delta": 1e-3}


@pytest.mark.parametrize(
    "line, named",
    [
        ("delta=0.01", "num-clients"),
        ("bands=7", "6"),
        ("policy=random", "banded"),
        ("rates=size", "rates"),
        ("compensate=availability", "availability"),
        ("policy=systematic jitter=0.2 privacy=banded bands=6", "5"),
        ("weights=size", "weights"),
        ("late-rounds=1", "late-rounds"),
        ("policy=oort privacy=white", "oort"),
        ("privacy=white bands=2", "bands"),
        ("evaluate-clients=2", "evaluate-clients"),
        ("privacy=none clip=2.0", "clip"),
    ],
)
def test_a_private_run_that_guarantees_nothing_is_refused(line, named):
    with pytest.raises(ConfigError) as error:
        RunConfig.parse(BANDED | pairs(line.split()))
    assert named in str(error.value)


@pytest.mark.parametrize(
    "line",
    [
        "compression=int8",
        "policy=oldest-age over-selection=1.5",
        "server-momentum=0.5",
        "evaluate-clients=2 metrics=clear",
    ],
)
def test_what_keeps_the_guarantee_is_allowed(line):
    RunConfig.parse(BANDED | pairs(line.split()))


def play(folder, **keys):
    place = {"runs-dir": str(folder), "run-name": "private"}
    return run_here(PRIVATE | place | {"policy": "systematic", "coordination": "reserve"} | keys)


@pytest.mark.parametrize(
    "keys",
    [
        {"policy": "systematic"},
        {"policy": "markov-optimal", "max-age": 2},
        {"policy": "oldest-age", "coordination": "auto"},
        {"policy": "random", "coordination": "auto", "privacy": "white"},
    ],
)
def test_the_command_counts_as_ledger_page_and_max_epsilon_do(keys, tmp_path, told):
    options = ["--max-age", str(keys["max-age"])] if "max-age" in keys else []
    sizes = ["--clients", "8", "--per-round", "2", "--rounds", "6", "--delta", "1e-2", "--noise-multiplier", "0.8"]
    planned = told("privacy --policy", keys["policy"], *options, *sizes)["epsilon"]
    folder = play(tmp_path, **keys, **{"max-epsilon": planned})
    spent = [row["epsilon"] for row in rounds_of(folder)]
    assert len(spent) == 6 and spent[-1] == planned
    assert not list(folder.glob("noise.*"))  # the run is complete
    assert not about_of(folder)["reason"]
    write([str(folder)], tmp_path / "page.html")
    assert f"{planned:.5g}" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("metrics", ["hidden", "clear"])
def test_a_private_ledger_has_participation_alone(tmp_path, metrics):
    folder = play(tmp_path, metrics=metrics)
    rounds, clients, parts = rounds_of(folder), clients_of(folder), parts_of(folder)
    told = [row["train_loss"] for row in rounds] + [row["examples"] for row in clients]
    told += [row[name] for row in parts for name in ("examples", "loss", "seconds")]
    assert all(value is None for value in told) == (metrics == "hidden")
    assert all(row["test_loss"] is not None for row in rounds)


def test_a_restored_run_is_refused(tmp_path, monkeypatch):
    def stop(*about):
        raise KeyboardInterrupt

    monkeypatch.setattr(ByPrivateMean, "complete", stop)  # the process ends before the run does
    with pytest.raises(KeyboardInterrupt):
        play(tmp_path)
    folder, backup = tmp_path / "private", tmp_path / "backup"
    with closing(Ledger(folder / "ledger.sqlite")) as ledger:
        ledger.forget_after(5)
    shutil.copytree(folder, backup)
    time.sleep(0.02)
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    with pytest.raises(ResumeError, match="copy"):
        play(tmp_path, resume=True)


OWN = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.base, self.one, self.two = nn.Linear(64, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.base.requires_grad_(False)
        self.two.weight = self.one.weight
        self.register_buffer("mask", torch.full((8,), -torch.inf))
        self.inner, self.head = inner, nn.Linear(8, 10)

    def forward(self, x):
        return self.head(self.inner(self.two(self.one(self.base(x.flatten(1))))))


def plain(shape, outputs):
    return Net(nn.ReLU())


def normalised(shape, outputs):
    return Net(nn.BatchNorm1d(8))


def spectral(shape, outputs):
    return Net(nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8)))
"""


def test_noise_covers_trained_arrays_alone(tmp_path):
    (tmp_path / "own_net.py").write_text(OWN)
    how = {"model": "python:own_net:plain", "model-dir": str(tmp_path), "num-server-rounds": 2}
    folder = play(tmp_path, **how)
    first = Task("digits", str(tmp_path), "python:own_net:plain", "cpu", 1, False, str(tmp_path)).initial_arrays()
    last = load_file(folder / "model.safetensors")
    same = {name for name, array in first.items() if np.array_equal(array, last[name])}
    assert same == {"base.weight", "base.bias", "mask", "one.weight"}  # two.weight has the shared parameter
    with refused("model", "inner.running_mean") as found:
        play(tmp_path / "bn", **how | {"model": "python:own_net:normalised"})
    assert "frozen" not in found.value.remedy  # which is no run key
    with refused("model", "inner.parametrizations.weight.0._u"):
        play(tmp_path / "spectral", **how | {"model": "python:own_net:spectral"})
