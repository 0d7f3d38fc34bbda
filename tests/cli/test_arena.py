"""``aoi arena``: what it plays and what it refuses."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

from aoi_fl.experiments.harness.base import Options
from aoi_fl.experiments.studies.arena import Arena
from aoi_fl.experiments.studies.entrants import BOTH
from tests.refusals import refused

PLAY = [sys.executable, "-m", "aoi_fl.cli.main", "arena"]


def arena(*arguments, cwd):
    return subprocess.run([*PLAY, *arguments], cwd=cwd, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--policies", "randon"], "policies is 'randon'"),
        (["--partition", "dirichlet"], "partition is 'dirichlet'"),
        (["--partition", "dirichlet:x"], "partition is 'dirichlet:x'"),
        (["--partition", "dirichlet:-1"], "partition is 'dirichlet:-1'"),
        (["-c", "until=0.5"], "until is 0.5"),
        (["--policies", "systematic:jitter=2"], "jitter is '2'"),
        (["--policies", "random:seed=3"], "policies is 'random:seed=3'"),
        (["--policies", "random:weights"], "policies is 'random:weights'"),
        (["-c", "policy=random"], "-c policy is 'random'"),
        (["--policies", "random:weights=size", "-c", "weights=equal"], "policies is 'random:weights=size'"),
        (["--policies", "random:weights=size:weights=equal"], "policies is 'random:weights=size:weights=equal'"),
        (["--policies", "random,oort,random"], "policies is 'random'"),
        (["--policies", "random,random:weights=auto"], "policies is 'random:weights=auto'"),
        (["--policies", "random:clock-start=40000"], "policies is 'random:clock-start=40000'"),
        (["--policies", "random:data-dir=x"], "policies is 'random:data-dir=x'"),
        (["--policies", "random:run-name=x"], "policies is 'random:run-name=x'"),
        (["--policies", "random:runs-dir=x"], "policies is 'random:runs-dir=x'"),
        (["--work", "/proc/none"], "--work is /proc/none"),
        (["--out", "/proc/none"], "--out is /proc/none/arena.csv"),
        (["--clock", "generatd"], "clock is 'generatd'"),
        (["--clock", "bernoulli:2"], "clock is 'bernoulli:2'"),
    ],
)
def test_impossible_settings_are_refused_before_any_run(aoi, arguments, words, tmp_path):
    status, out, err = aoi("arena", "--quick", "--quiet", *arguments)
    assert (status, out) == (2, "")
    assert words in " ".join(err.split())
    assert not list(tmp_path.iterdir())


def test_an_oracle_without_a_trace_is_refused_at_once(aoi, tmp_path):
    told = {i: {"active": [0], "inactive": [50], "finish_time": 100} for i in range(20)}
    (tmp_path / "b.pkl").write_bytes(pickle.dumps(told))
    policies = ["--policies", "random,refl:foresight=true", "--clock", "b.pkl", "-c", "num-clients=20"]
    status, out, err = aoi("arena", "--quick", "--quiet", *policies)
    assert (status, out) == (2, "")
    assert "b.pkl has no speed of devices" in " ".join(err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["b.pkl"]


def test_selection_is_played_in_simulated_time(tmp_path):
    command = [*PLAY[:-1], "simulate", "--policy", "random", "--clock", "generated", "--deadline", "30", "--json"]
    found = json.loads(subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout)
    assert 0 < found["device_hours_in_vain"] < found["device_hours"]
    assert 1 <= found["seconds_a_round"] <= 31
    fedcs = [word if word != "random" else "fedcs" for word in command]
    found = json.loads(subprocess.run(fedcs, cwd=tmp_path, capture_output=True, text=True, check=True).stdout)
    assert found["device_hours"] > 0, "whom FedCS takes for in time by the deadline of the clock"
    hurried = [*command[:-3], "--per-round", "40", "--deadline", "2"]
    said = " ".join(subprocess.run(hurried, cwd=tmp_path, capture_output=True, text=True, check=True).stderr.split())
    assert "a round wants 40 clients, and of 100 there are" in said
    assert "the deadline is 2 s, and the fastest of the clients takes" in said and "Raise it" in said
    some = [*command[:-1], "--over-selection", "1.5", "--until", "30min", "--rounds", "100000", "--json"]
    found = json.loads(subprocess.run(some, cwd=tmp_path, capture_output=True, text=True, check=True).stdout)
    assert found["rounds"] < 1000 and 0.5 <= found["simulated_hours"] < 0.52 and found["round_mean"] <= 15
    unequal = [*some[:-1], "--weights", "unbiased"]
    unequal = subprocess.run(unequal, cwd=tmp_path, capture_output=True, text=True)
    assert unequal.returncode == 2 and "over-selection is 1.5" in " ".join(unequal.stderr.split())
    alone = subprocess.run([*command[:6], "--deadline", "30"], cwd=tmp_path, capture_output=True, text=True)
    assert alone.returncode == 2
    assert "train-timeout" in alone.stderr


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"polcy": "random"}, "polcy"),
        ({"num-clients": "0"}, "num-clients"),
        ({"num-clients": "4"}, "clients-per-round"),
        ({"alpha": "0.3"}, "-c alpha"),
        ({"num-server-rounds": "4"}, "-c num-server-rounds"),
        ({"dataset": "cifar10"}, "dataset"),
    ],
)
def test_run_keys_that_cannot_hold_for_all_are_refused(asked, words):
    with refused(words):
        Arena().shared(asked, Options(quick=True))


K4, ALONE = "random:clients-per-round=4", "random:clients-per-round={}:over-selection=1"


@pytest.mark.parametrize(
    ("keys", "few"),
    [
        ({}, [K4, ALONE.format(4), ALONE.format(3), ALONE.format(2), ALONE.format(4) + BOTH]),
        # Without over-selection the first two are the same.
        ({"over-selection": 1.0}, [K4, ALONE.format(3), ALONE.format(2), ALONE.format(4) + BOTH]),
        ({"clients-per-round": 4}, [ALONE.format(4), ALONE.format(3), ALONE.format(2), ALONE.format(4) + BOTH]),
        ({"clients-per-round": 3}, [ALONE.format(3), ALONE.format(2)]),
    ],
)
def test_entrants_that_do_not_differ_are_left_out(keys, few):
    found = Arena().entrants(Options(quick=True, keys=tuple(keys.items())))
    assert [entrant for entrant in found if "clients-per-round" in entrant] == few
    assert len({entrant.partition(":")[0] for entrant in found}) == 10


def test_results_of_other_run_keys_are_not_mixed(aoi, tmp_path):
    small = ["-cnum-clients=20", "-cclients-per-round=4", "-cuntil=60", "-clocal-epochs=1"]
    options = ["--quick", "--quiet", "--policies", "systematic:weights=size", "--seeds", "1"]
    found = arena(*options, *small, cwd=tmp_path)
    assert (found.returncode, found.stdout) == (0, "runs/arena/quick/arena.md\n")
    assert found.stderr.startswith("aoi: a round wants 6 clients, and of 20") and found.stderr.count("\n") == 1
    page = (tmp_path / "runs/arena/quick/arena.md").read_text()
    assert "20 clients by clock=generated, 4 a round" in page and "0.0166667 h of simulated time" in page
    assert f"Command: `aoi arena {' '.join([*options, *small])}`" in page
    status, _, err = aoi("arena", *options, *small[1:], "-cnum-clients=21")
    assert status == 2 and "num-clients=20" in err and "--out" in err


@pytest.mark.slow
def test_policies_are_compared_and_no_run_is_repeated(tmp_path):
    options = ["--quick", "--policies", "random,markov-optimal", "--seeds", "1"]
    assert arena(*options, cwd=tmp_path).returncode == 0
    page = (tmp_path / "runs/arena/quick/arena.md").read_text()
    assert "| random |" in page
    assert "| markov-optimal |" in page
    assert "minutes to 80 %" in page
    assert (tmp_path / "runs/arena/quick/arena.png").stat().st_size > 10_000
    again = arena(*options, cwd=tmp_path)
    assert again.returncode == 0
    assert "going on" not in again.stderr


def test_device_errors_and_empty_runs_are_named(tmp_path):
    few = arena("--quick", "--seeds", "1", "--policies", "random", "-c", "clients-per-round=60", "-c", "until=10",
                "--out", "few", cwd=tmp_path)  # fmt: skip
    assert "a round wants 78 clients, and of 100 there are" in few.stderr
    vain = arena("--quick", "--seeds", "1", "--policies", "oldest-age", "-c", "train-timeout=1.5", "-c", "until=10",
                 "--out", "vain", cwd=tmp_path)  # fmt: skip
    assert vain.returncode == 2 and "train-timeout (1.5 s of simulated time)" in vain.stderr
    assert "oldest-age" in vain.stderr


def test_another_file_of_the_same_name_is_another_arena(tmp_path):
    found = []
    for folder, training in (("x", 3.0), ("y", 50.0)):
        (tmp_path / folder).mkdir()
        np.savez(tmp_path / folder / "t.npz", offsets=np.arange(0, 42, 2), seconds=np.tile([0, 3600], 20),
                 available=np.tile([True, False], 20), training_seconds=np.full(20, training))  # fmt: skip
        keys = ["-c", "num-clients=20", "-c", "clients-per-round=5", "-c", "until=60", "--work", "work"]
        found.append(arena("--quick", "--seeds", "1", "--policies", "random", "--clock", f"{folder}/t.npz", *keys,
                           "--out", "out", cwd=tmp_path))  # fmt: skip
    assert found[0].returncode == 0 and found[1].returncode == 2
    assert "--out" in found[1].stderr and "digest=" in found[1].stderr
