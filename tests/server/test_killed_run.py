"""A run that is killed goes on as if nothing had happened.

The processes are real and the kills are SIGKILL. A run that was cut is compared with one of the same configuration
that was left alone, in this process. Most processes are forked from one that has imported everything, because
importing takes longer than the runs.
"""

import os
import random
import shutil
import signal
import time
from contextlib import closing

import pytest

from aoi_fl.server.folder import CHECKPOINTS, LEDGER
from aoi_fl.server.ledger import Ledger
from aoi_fl.server.resume import take_up
from tests.server.interrupted import (
    EACH,
    ROUNDS,
    arguments_of,
    assert_same,
    broken_off,
    configuration,
    kill,
    recorded,
    resume_here,
    signalled,
    wait_for,
)


@pytest.mark.parametrize("policy", EACH)
def test_a_killed_run_goes_on_as_if_nothing_had_happened(policy, start, whole, tmp_path):
    chance = random.Random(policy)
    folder = tmp_path / "cut"
    process = start(*arguments_of(configuration(policy, tmp_path, "cut")))
    for round_ in sorted(chance.sample(range(1, ROUNDS - 1), 2)):
        wait_for(folder, round_, process)
        time.sleep(chance.uniform(0, 0.05))
        kill(process)
        assert recorded(folder) >= round_
        process = start("resume", str(folder))
    process.join()
    assert process.exitcode == 0, process.output.read_text()
    assert_same(folder, whole(policy))
    assert [path.name for path in (folder / CHECKPOINTS).iterdir()] == [f"model-{ROUNDS - 1}.safetensors"]


@pytest.mark.parametrize(("point", "kept"), [("half-written", 3), ("renamed", 3), ("committed", 4)])
def test_a_run_may_be_killed_while_it_writes_a_round_down(point, kept, start, whole, tmp_path):
    folder = tmp_path / "cut"
    arguments = arguments_of(configuration("poll", tmp_path, "cut"))
    process = start(*arguments, script=signalled(point, 4))
    process.join()
    assert process.exitcode == -signal.SIGKILL, process.output.read_text()
    names = sorted(os.listdir(folder / CHECKPOINTS))
    assert recorded(folder) == kept
    assert (".model-4.safetensors.tmp" in names) == (point == "half-written")
    assert ("model-4.safetensors" in names) == (point != "half-written")
    resume_here(folder)
    assert_same(folder, whole("poll"))


def test_a_damaged_checkpoint_costs_one_round(copy, whole, capsys):
    """The run goes on at another place than the one where it began."""
    path = copy / CHECKPOINTS / "model-5.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    other = shutil.copytree(copy, copy.parent / "other" / copy.name)
    with closing(Ledger(other / LEDGER)) as ledger:
        assert take_up(other, ledger)[0].next_round == 5
    assert recorded(other) == 4
    resume_here(copy)
    assert "continues with round 5" in capsys.readouterr().err
    assert_same(copy, whole("poll"))  # the clients give the same answers again


def test_a_run_cut_after_its_last_round_is_only_finished(copy, whole, monkeypatch):
    monkeypatch.setattr("aoi_fl.server.app.keep", broken_off)  # what writes the final model
    with pytest.raises(KeyboardInterrupt):
        resume_here(copy)
    assert recorded(copy) == ROUNDS
    monkeypatch.undo()
    resume_here(copy)
    assert_same(copy, whole("poll"))
