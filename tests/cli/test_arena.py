"""``aoi arena``: what it plays and what it refuses."""

import json
import re
import subprocess
import sys

import pytest

from aoi_fl.experiments.figures.arena import Arena
from aoi_fl.experiments.harness.base import Options
from aoi_fl.science.errors import ConfigError

PLAY = [sys.executable, "-m", "aoi_fl.cli.main", "arena"]


def arena(*arguments, cwd):
    return subprocess.run([*PLAY, *arguments], cwd=cwd, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--policies", "randon"], "Did you mean 'random'"),
        (["--partition", "dirichlet"], "give iid or dirichlet:ALPHA"),
        (["--policies", "systematic:jitter=2"], "jitter is '2'"),
        (["--policies", "random:seed=3"], "'seed=3': the arena sets it for all"),
        (["--policies", "random:weights"], "'weights': write for instance systematic:weights=size"),
        (["-c", "policy=random"], "-c policy is not for the arena: give --policies"),
        (["--policies", "random:weights=size", "-c", "weights=equal"], "'weights=size': the arena sets it for all"),
        (["--out", "/proc/none"], "/proc/none/arena.csv cannot be written"),
        (["--clock", "bernoulli:2"], "the share must be above 0, and at most 1"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_played(aoi, arguments, words, tmp_path):
    status, out, err = aoi("arena", "--quick", "--quiet", *arguments)
    assert (status, out) == (2, "")
    assert words in " ".join(err.split())
    assert not list(tmp_path.iterdir())


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
    alone = subprocess.run([*command[:6], "--deadline", "30"], cwd=tmp_path, capture_output=True, text=True)
    assert alone.returncode == 2
    assert "deadline 30.0 means nothing to time that is not simulated" in " ".join(alone.stderr.split())


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"polcy": "random"}, "Did you mean 'policy'"),
        ({"num-clients": "0"}, "num-clients is '0'"),
        ({"num-clients": "4"}, "clients-per-round is 8, more than num-clients, 4"),
        ({"alpha": "0.3"}, "give --partition dirichlet:ALPHA"),
        ({"num-server-rounds": "4"}, "num-server-rounds is not for the arena, which decides it"),
        ({"dataset": "cifar10"}, "the arena has levels of accuracy for digits and mnist only"),
    ],
)
def test_run_keys_that_cannot_hold_for_all_are_refused(asked, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        Arena().shared(asked, Options(quick=True))


def test_run_keys_hold_for_all_and_results_under_others_are_not_mixed(aoi, tmp_path):
    small = ["-cnum-clients=20", "-cclients-per-round=4", "-cuntil=60", "-clocal-epochs=1"]
    options = ["--quick", "--quiet", "--policies", "systematic:weights=size", "--seeds", "1"]
    found = arena(*options, *small, cwd=tmp_path)
    assert (found.returncode, found.stdout, found.stderr) == (0, "runs/arena/quick/arena.md\n", "")
    page = (tmp_path / "runs/arena/quick/arena.md").read_text()
    assert "20 clients by clock=generated, 4 a round" in page and "0.0166667 h of simulated time" in page
    assert f"Command: `aoi arena {' '.join([*options, *small])}`" in page
    status, _, err = aoi("arena", *options, *small[1:], "-cnum-clients=21")
    assert status == 2 and "num-clients=20" in err and "results are not mixed" in err


@pytest.mark.slow
def test_policies_are_put_beside_one_another_and_nothing_is_played_twice(tmp_path):
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
