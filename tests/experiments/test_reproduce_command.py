"""``aoi reproduce``: interrupted, in processes, without data; what it says meanwhile, and the account it keeps."""

import re
import signal
import sqlite3
import time

import psutil
import pytest

from aoi_fl.lab.experiments import registry
from aoi_fl.lab.experiments.harness.base import Options
from aoi_fl.lab.experiments.harness.store import Store
from aoi_fl.lab.experiments.registry import find
from aoi_fl.lab.experiments.runner import reproduce, rewrite
from aoi_fl.lab.experiments.summary import write_summary
from aoi_fl.science.errors import ConfigError
from tests.cli.test_interrupt import begin, interrupted
from tests.ledgers import rounds_of
from tests.server.test_sources import published

LINE = "reproduce compression --quick --seeds 1 --rounds 6 --model lr --out out --work work"


@pytest.mark.slow
def test_an_interrupted_command_goes_on_to_the_same_results(aoi, tmp_path):
    whole = tmp_path / "whole"
    reproduce(find("compression"), Options(seeds=1, rounds=6, model="lr", quick=True, work=tmp_path / "w"), whole, 1)
    child = begin(tmp_path, LINE)
    while child.poll() is None and not any(begun(path.parent) for path in (tmp_path / "work").rglob("ledger.sqlite")):
        time.sleep(0.01)
    said = interrupted(child, signal.SIGINT, 130)
    assert "compression: 3 units to run\n" in said and "3/3" not in said  # too short for an estimate
    assert "interrupted; the same command resumes" in said
    assert not (tmp_path / "out" / "modes.md").exists()

    status, _, errors = aoi(LINE)
    assert status == 0 and "left" in errors
    assert (tmp_path / "out" / "compression.csv").read_bytes() == (whole / "compression.csv").read_bytes()


def begun(folder):
    try:
        return rounds_of(folder)
    except (ConfigError, sqlite3.Error):  # just being made
        return []


@pytest.mark.slow
def test_processes_end_with_a_command_that_is_terminated(tmp_path):
    child = begin(tmp_path, "reproduce dropout --out out --work work --workers 2")
    assert any(line.startswith("dropout: 1/") for line in child.stderr)
    played_in = psutil.Process(child.pid).children()
    assert len(played_in) >= 2
    child.terminate()
    assert child.wait(30) == -signal.SIGTERM
    assert not psutil.wait_procs(played_in, timeout=30)[1]


def test_all_skips_experiments_without_data_before_the_start(aoi, tmp_path, monkeypatch):
    published(tmp_path / "data", "MNIST")
    few = {name: find(name) for name in ("wics-budget", "start")}
    monkeypatch.setattr(registry, "experiments", lambda: few)
    status, output, errors = aoi("reproduce all --seeds 1 --rounds 2 --data-dir data --out out --work work")
    assert status == 0
    assert re.search(r"wics-budget is left out: data set fashion-mnist is .*--data-dir", errors)
    assert not (tmp_path / "work" / "wics-budget").exists()  # not even on MNIST, which is there
    assert output.split() == ["out/start.md", "out/README.md"]
    assert (tmp_path / "out" / "start.md").is_file()
    status, _, errors = aoi("reproduce wics-budget --data-dir data")
    assert status == 2 and "data set fashion-mnist" in errors


# The account


@pytest.mark.parametrize("complete", [False, True])
def test_an_incomplete_seed_is_left_out_of_a_page(tmp_path, complete):
    experiment, quick = find("load-variance"), Options(quick=True)
    store = Store(tmp_path, experiment.name, experiment.kept_under(quick), "two cores")
    for unit in experiment.units(quick)[: len(experiment.policies) - (not complete)]:
        store.add(unit, experiment.play(unit, quick), 1.0)
    rewrite(tmp_path)
    text = write_summary(tmp_path).read_text()
    assert (tmp_path / "load-variance.md").exists() == complete == ("(load-variance.md)" in text)
