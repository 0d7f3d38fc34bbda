"""``aoi reproduce``: interrupted, in processes, without data; what it says meanwhile, and the account it keeps."""

import json
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from aoi_fl.lab.experiments import registry
from aoi_fl.lab.experiments.harness.account import behind, commands
from aoi_fl.lab.experiments.harness.base import Options
from aoi_fl.lab.experiments.harness.findings import Claim
from aoi_fl.lab.experiments.harness.store import Store, key_of
from aoi_fl.lab.experiments.registry import find
from aoi_fl.lab.experiments.runner import expected_seconds, reproduce, rewrite, write_pages
from aoi_fl.lab.experiments.summary import write_summary
from aoi_fl.science.errors import ConfigError
from aoi_fl.server.ledger import read

ROOT = Path(__file__).resolve().parents[2]
COMMAND = ("reproduce", "compression", "--quick", "--seeds", "1", "--rounds", "6", "--model", "lr")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the folder of results that nothing interrupted, of one process."""
    folder = tmp_path_factory.mktemp("whole")
    reproduce(find("compression"), Options(seeds=1, rounds=6, model="lr", quick=True, work=folder / "work"), folder, 1)
    return folder


def _interruptible():
    """What a shell runs in the background ignores the signal, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _rounds(ledger):
    try:
        return read(ledger, "rounds")
    except (ConfigError, sqlite3.Error):  # just being made
        return []


@pytest.mark.slow
def test_an_interrupted_command_goes_on_to_the_same_results(aoi, tmp_path, whole):
    where = ("--out", str(tmp_path / "out"), "--work", str(tmp_path / "work"))
    arguments = [sys.executable, "-m", "aoi_fl.cli.main", *COMMAND, *where]
    child = subprocess.Popen(
        arguments, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, preexec_fn=_interruptible
    )
    while child.poll() is None and not any(_rounds(ledger) for ledger in tmp_path.rglob("ledger.sqlite")):
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
def test_two_processes_give_the_results_of_one(tmp_path, whole):
    where = ["--out", tmp_path, "--work", tmp_path / "work", "--workers", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "aoi_fl.cli.main", *COMMAND, *where], cwd=ROOT, check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    assert (tmp_path / "compression.csv").read_bytes() == (whole / "compression.csv").read_bytes()
    assert "compression: 3/3 (" in done.stderr


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


def idx(array):
    return struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def only_mnist(tmp_path):
    """Return a data folder with eight images of MNIST's layout, and no other data set."""
    raw = tmp_path / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part in ("train", "t10k"):
        (raw / f"{part}-images-idx3-ubyte").write_bytes(idx(np.zeros((8, 28, 28), np.uint8)))
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(idx(np.zeros(8, np.uint8)))
    return str(tmp_path / "data")


def test_all_skips_experiments_without_data_before_the_start(aoi, tmp_path, monkeypatch, only_mnist):
    few = {name: find(name) for name in ("wics-budget", "start")}
    monkeypatch.setattr(registry, "experiments", lambda: few)
    status, output, errors = aoi(
        "reproduce", "all", "--seeds", "1", "--rounds", "2", "--data-dir", only_mnist, "--out", "out", "--work", "work"
    )
    assert status == 0
    assert re.search(r"wics-budget is left out: data set fashion-mnist is .*--data-dir", errors)
    assert not (tmp_path / "work" / "wics-budget").exists()  # not even on MNIST, which is there
    assert output.split() == ["out/start.md", "out/README.md"]
    assert (tmp_path / "out" / "start.md").is_file()
    status, _, errors = aoi("reproduce", "wics-budget", "--data-dir", only_mnist)
    assert status == 2 and "data set fashion-mnist" in errors


@pytest.mark.parametrize("name", ["wics-learning", "wics-budget"])
def test_every_data_set_of_a_unit_is_named(name):
    for options in (Options(), Options(quick=True)):
        read = {unit["dataset"] for unit in find(name).units(options)}
        assert set(find(name).datasets(options)) == read
    assert set(find(name).datasets(Options())) == {"mnist", "fashion-mnist"}


# What is said meanwhile


def test_the_hours_of_an_experiment_are_printed_in_advance():
    learning = find("wics-learning")
    assert expected_seconds(learning, Options(), 1) == 60 * learning.minutes / len(learning.units(Options()))
    assert expected_seconds(learning, Options(), 2) == expected_seconds(learning, Options(model="lr"), 1) / 2
    assert expected_seconds(learning, Options(model="lr", seeds=12), 2) == expected_seconds(learning, Options(), 2)
    assert expected_seconds(learning, Options(rounds=20), 1) is None
    assert expected_seconds(learning, Options(model="cnn"), 1) is None  # where all train, it is not in the account


# The account


def test_a_second_machine_is_named(tmp_path):
    Store(tmp_path, "x", {}, "two cores").add({"seed": 1}, [{"v": 1}], 1)
    store = Store(tmp_path, "x", {}, "a server")
    assert store.machine == "two cores"
    store.add({"seed": 2}, [{"v": 1}], 2)
    assert Store(tmp_path, "x", {}, "").machine == "1 unit on two cores; 1 unit on a server"
    assert json.loads((tmp_path / "x.json").read_text())["units"][0] == {"unit": {"seed": 1}, "seconds": 1}


def test_units_are_put_in_the_order_of_the_plan(tmp_path):
    store = Store(tmp_path, "x", {}, "")
    for seed in (3, 9, 1):
        store.add({"seed": seed}, [{"v": seed}, {"v": -seed}], 0)
    store.arrange([{"seed": s} for s in (1, 2, 3)])
    assert [(row["seed"], row["v"]) for row in Store(tmp_path, "x", {}, "").rows] == [
        *((1, 1), (1, -1), (3, 3), (3, -3)),
        *((9, 9), (9, -9)),
    ]


def _recorded(folder, name, options, keep=lambda unit: True):
    experiment = find(name)
    store = Store(folder, name, experiment.kept_under(options), "")
    for unit in filter(keep, experiment.units(options)):
        store.add(unit, [{"round": t, "accuracy": 0.99, "loss": 0.1, "trained": 1} for t in (1, 2)], 1800)
    return store


def test_the_command_is_the_one_that_plays_the_units(tmp_path):
    store = _recorded(tmp_path, "mnist-iid", Options(seeds=7, rounds=50))
    assert list(commands(find("mnist-iid"), store)) == ["aoi reproduce mnist-iid --seeds 7 --rounds 50"]
    store = _recorded(tmp_path, "wics-learning", Options())
    assert list(commands(find("wics-learning"), store)) == ["aoi reproduce wics-learning"]
    store = _recorded(tmp_path, "wics-learning", Options(model="cnn"), lambda unit: not store.has(unit))
    assert list(commands(find("wics-learning"), store)) == [
        "aoi reproduce wics-learning",
        "aoi reproduce wics-learning --model cnn",
    ]
    assert not commands(find("windows"), Store(tmp_path, "windows", {"rounds": 7}, ""))


@pytest.mark.slow
def test_committed_pages_match_committed_results(tmp_path):
    results = ROOT / "docs/results"
    for recorded in results.glob("*.json"):
        store, experiment = Store.recorded(results, recorded.stem), find(recorded.stem)
        page = (results / experiment.home).read_text()
        if experiment.page.startswith(".."):  # a document that is written by hand
            continue
        assert commands(experiment, store) or "(these are of an earlier version" in page, recorded.stem
        assert behind(experiment, store, f"aoi reproduce {recorded.stem}") in page, recorded.stem
        assert experiment.conclude(store.rows, store.settings).paragraph in page, recorded.stem
    copy = shutil.copytree(results, tmp_path / "docs" / "results")
    for document in ("policies.md", "clock.md"):  # which the first page points to
        (tmp_path / "docs" / document).touch()
    write_summary(copy)
    for page in ("README.md", "not-run.md", "verdicts.svg"):
        assert (copy / page).read_text() == (results / page).read_text(), f"{page}: run aoi reproduce summary"


def test_a_page_of_a_part_of_the_units_says_so(tmp_path):
    store = _recorded(
        tmp_path, "mnist-dirichlet", Options(), lambda unit: (unit["seed"], unit["policy"]) != (10, "random")
    )
    shown = behind(find("mnist-dirichlet"), store, "")
    assert "`aoi reproduce mnist-dirichlet` · 58 of 60 units · seeds: 6 to 10 · " in shown


def test_examples_beyond_the_planned_share_are_added(tmp_path):
    learning = find("mnist-iid")  # 50 units: 10 seeds of 5 policies
    for case, options, few, shown in (
        ("fewer", Options(seeds=1), lambda unit: True, "mnist-iid --seeds 1` · 5 of 50 units · seeds: 6 · "),
        ("plan", Options(), lambda unit: True, "mnist-iid` · seeds: 6 to 15 · "),
        ("more", Options(seeds=12), lambda unit: True, "mnist-iid --seeds 12` · seeds: 6 to 17 · "),
        ("part", Options(seeds=12), lambda unit: unit["policy"] == "random", "· 12 of 60 units · seeds: 6 to 17 · "),
        ("other settings", Options(seeds=1, rounds=50), lambda unit: True, "--seeds 1 --rounds 50` · seeds: 6 · "),
    ):
        assert shown in behind(learning, _recorded(tmp_path / case, "mnist-iid", options, few), ""), case
    cnn = _recorded(tmp_path / "on demand", "wics-sensitivity", Options(model="cnn"), lambda unit: unit["seed"] == 1)
    assert "--model cnn` · 8 of 288 units · " in behind(find("wics-sensitivity"), cnn, "")


def test_results_of_other_settings_name_the_change(tmp_path):
    experiment = find("arena-trace-iid")
    settings = {key: value for key, value in experiment.settings(Options()).items() if key != "clock-start"}
    store = Store(tmp_path, experiment.name, settings, "two cores")
    shown = behind(experiment, store, "aoi reproduce arena-trace-iid")
    assert "`aoi reproduce arena-trace-iid` (these are of an earlier version, without clock-start) · " in shown


def test_more_seeds_of_one_model_have_their_own_command(tmp_path):
    experiment = find("wics-learning")
    usual = [key_of(unit) for unit in experiment.units(Options())]
    store = _recorded(
        tmp_path, "wics-learning", Options(seeds=12), lambda unit: unit["model"] == "lr" or key_of(unit) in usual
    )
    assert list(commands(experiment, store)) == [
        "aoi reproduce wics-learning",
        "aoi reproduce wics-learning --seeds 12 --model lr",
    ]


def test_nobody_is_told_to_play_a_quick_look_at_all_rounds(tmp_path):
    experiment = find("wics-learning")
    store = _recorded(tmp_path, "wics-learning", Options(model="cnn"), lambda unit: unit["dataset"] == "mnist")
    assert list(commands(experiment, store)) == ["aoi reproduce wics-learning --model cnn"]


def test_pages_and_claims_have_seeds_hours_and_command(tmp_path):
    experiment = find("mnist-iid")
    store = _recorded(tmp_path, "mnist-iid", Options(), lambda unit: unit["seed"] < 10)
    page = write_pages(experiment, store, tmp_path, "").read_text()
    assert "Command: `aoi reproduce mnist-iid --seeds 4` · 20 of 50 units · seeds: 6 to 9 · 10.00 h of one core" in page
    lines = write_summary(tmp_path).read_text().splitlines()
    line = next(line for line in lines if line.startswith("- Verdict") and "(unequal.md)" in line)
    # Of five policies' twenty runs of half an hour, the claim rests on those of two.
    assert "Seeds: 4. One core: 4.00 h. Command: `aoi reproduce mnist-iid --seeds 4`. " in line


def test_a_claim_is_one_line_whatever_its_text(tmp_path, monkeypatch):
    odd = Claim("`m` < |t| & *small*\n", "a paper", "a\n| b", "", "undecided")
    monkeypatch.setattr(find("windows"), "claims", (odd,))
    lines = write_summary(tmp_path).read_text().splitlines()
    assert '<summary><b class="undecided">undecided</b> <code>m</code> &lt; |t| &amp; *small*</summary>' in "".join(
        lines
    )
    assert lines.count("</details>") == sum("<details" in line for line in lines) and "- a paper: a | b" in lines


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


def test_seeds_that_are_played_in_part_are_not_counted(tmp_path):
    experiment = find("load-variance")
    store = Store(tmp_path, experiment.name, experiment.kept_under(Options(quick=True)), "two cores")
    for unit in experiment.units(Options(quick=True))[: len(experiment.policies) + 2]:
        store.add(unit, experiment.play(unit, Options(quick=True)), 1.0)
    assert " · seeds: 1 · " in behind(experiment, store, "aoi reproduce load-variance")
    lines = write_summary(tmp_path).read_text().splitlines()
    line = next(line for line in lines if line.startswith("- Verdict") and "(load-variance.md)" in line)
    assert f"Seeds: 1. One core: {len(experiment.policies)} s." in line  # of that seed alone
