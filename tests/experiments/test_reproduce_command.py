"""``aoi reproduce``: interrupted, in processes, without data; what it says meanwhile, and the account it keeps."""

import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from aoi_fl.lab.experiments import registry
from aoi_fl.lab.experiments.harness.base import Options
from aoi_fl.lab.experiments.harness.store import Store
from aoi_fl.lab.experiments.registry import find
from aoi_fl.lab.experiments.runner import reproduce, rewrite
from aoi_fl.lab.experiments.summary import write_summary
from aoi_fl.science.errors import ConfigError
from aoi_fl.server.ledger import read
from tests.server.test_sources import published

ROOT = Path(__file__).resolve().parents[2]
COMMAND = ("reproduce", "compression", "--quick", "--seeds", "1", "--rounds", "6", "--model", "lr")


def _interruptible():
    """What a shell runs in the background ignores the signal, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _rounds(ledger):
    try:
        return read(ledger, "rounds")
    except (ConfigError, sqlite3.Error):  # just being made
        return []


@pytest.mark.slow
def test_an_interrupted_command_goes_on_to_the_same_results(aoi, tmp_path):
    whole = tmp_path / "whole"
    reproduce(find("compression"), Options(seeds=1, rounds=6, model="lr", quick=True, work=tmp_path / "w"), whole, 1)
    where = ("--out", str(tmp_path / "out"), "--work", str(tmp_path / "work"))
    arguments = [sys.executable, "-m", "aoi_fl.cli.main", *COMMAND, *where]
    child = subprocess.Popen(
        arguments, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, preexec_fn=_interruptible
    )
    while child.poll() is None and not any(_rounds(ledger) for ledger in (tmp_path / "work").rglob("ledger.sqlite")):
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130, said
    assert "compression: 3 units to run\n" in said and "3/3" not in said  # too short for an estimate
    assert "interrupted; the same command resumes" in said
    assert not (tmp_path / "out" / "modes.md").exists()

    status, _, errors = aoi(*COMMAND, *where)
    assert status == 0 and "left" in errors
    assert (tmp_path / "out" / "compression.csv").read_bytes() == (whole / "compression.csv").read_bytes()


@pytest.mark.slow
def test_processes_end_with_a_command_that_is_terminated(tmp_path):
    arguments = ["reproduce", "dropout", "--out", tmp_path, "--work", tmp_path / "work", "--workers", "2"]
    child = psutil.Popen([sys.executable, "-m", "aoi_fl.cli.main", *arguments], cwd=ROOT, stderr=subprocess.PIPE)
    while b"dropout: 1/" not in child.stderr.readline():
        assert child.poll() is None, "it has ended"
    played_in = child.children()
    assert len(played_in) >= 2
    child.terminate()
    assert child.wait(30) == -signal.SIGTERM
    assert not psutil.wait_procs(played_in, timeout=30)[1]


def test_all_skips_experiments_without_data_before_the_start(aoi, tmp_path, monkeypatch):
    published(tmp_path / "data", "MNIST")
    data = ("--data-dir", str(tmp_path / "data"))
    few = {name: find(name) for name in ("wics-budget", "start")}
    monkeypatch.setattr(registry, "experiments", lambda: few)
    status, output, errors = aoi(
        "reproduce", "all", "--seeds", "1", "--rounds", "2", *data, "--out", "out", "--work", "work"
    )
    assert status == 0
    assert re.search(r"wics-budget is left out: data set fashion-mnist is .*--data-dir", errors)
    assert not (tmp_path / "work" / "wics-budget").exists()  # not even on MNIST, which is there
    assert output.split() == ["out/start.md", "out/README.md"]
    assert (tmp_path / "out" / "start.md").is_file()
    status, _, errors = aoi("reproduce", "wics-budget", *data)
    assert status == 2 and "data set fashion-mnist" in errors


# The account


def test_an_incomplete_seed_is_left_out_of_a_page(tmp_path):
    experiment = find("load-variance")
    policies = experiment.policies
    for played, seeds in (("random", 0), (policies[-1], 1)):  # the first seed in part, or whole
        folder = tmp_path / str(seeds)
        store = Store(folder, experiment.name, experiment.kept_under(Options(quick=True)), "two cores")
        for unit in experiment.units(Options(quick=True))[: policies.index(played) + 1]:
            store.add(unit, experiment.play(unit, Options(quick=True)), 1.0)
        rewrite(folder)
        text = write_summary(folder).read_text()
        assert (folder / "load-variance.md").exists() == bool(seeds) == ("(load-variance.md)" in text)
