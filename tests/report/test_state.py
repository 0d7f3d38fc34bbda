"""Whether a run lives, told by the lock on its folder and the rounds in its ledger."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from aoi_fl.cli.interrupt import _way_on
from aoi_fl.protocol.records import RoundRecord
from aoi_fl.report import state
from aoi_fl.report.metrics import exposition
from aoi_fl.report.runs import load
from aoi_fl.report.summary import sentence
from aoi_fl.report.summary_card import glance
from aoi_fl.server.folder import is_played, only_player
from tests.report.recorded import record

ROOT = Path(__file__).parents[2]
HOLDER = """
import sys, time
from pathlib import Path
from aoi_fl.server.folder import only_player
with only_player(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def row(number, ended, seconds):
    return {"round": number, "started": ended - seconds, "seconds": seconds}


@pytest.mark.parametrize(
    ("rounds", "since", "name", "detail"),
    [
        ([], None, "running", "no round has ended yet"),
        ([], 940.0, "running", "no round has ended yet, begun 60 s ago"),
        ([row(7, 980, 30)], 900.0, "running", "round 7 ended 20 s ago"),
        ([row(7, 911, 30)], 800.0, "running", "round 7 ended 89 s ago"),
        ([row(7, 909, 30)], 800.0, "stalled", "round 7 ended 91 s ago, a round takes 30 s"),
        ([row(1, 100, 600), *(row(i, 900, 30) for i in range(2, 5))], 50.0, "stalled", "round 4 ended 100 s ago"),
        ([row(7, 995, 0.1)], 900.0, "running", "round 7 ended 5 s ago"),  # quick rounds, and nobody is late yet
        ([row(7, 400, 30)], 980.0, "running", "no round has ended yet, begun 20 s ago"),  # taken up a moment ago
        ([row(7, 1003, 1)], None, "running", "round 7 ended 0 s ago"),  # a clock that was set back
    ],
)
def test_three_usual_rounds_without_a_new_one_are_a_stall(rounds, since, name, detail):
    found = state.judge(rounds, since, now=1000.0)
    assert found.name == name and found.detail.startswith(detail)


def ledger(folder, **about):
    return record(folder, [RoundRecord(1, started=1.0, seconds=2.0)], [], **about)


def test_the_lock_tells_a_run_that_goes_on_from_one_that_is_dead(tmp_path):
    folder = ledger(tmp_path / "a", status="running")
    assert is_played(folder) is False
    assert glance(folder).state.name == load(folder, "a").status == "interrupted"
    with subprocess.Popen([sys.executable, "-c", HOLDER, folder], cwd=ROOT, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        assert is_played(folder) is True
        assert load(folder, "a").status == "running"
        assert glance(folder).state.sentence.startswith("Running: no round has ended yet, begun")
        holder.kill()
    assert glance(folder).state.name == "interrupted"
    with only_player(folder):  # whoever looked did not keep it
        pass


def test_a_run_that_simulated_time_ends_has_no_number_of_rounds(tmp_path):
    config = {"policy": "random", "num-server-rounds": 1_000_000, "clock": "always", "until": 3600.0}
    folder = ledger(tmp_path / "a", status="running", run="a", config=config)
    with only_player(folder):
        seen = glance(folder)
    assert (seen.rounds, seen.left) == (None, "")
    assert ": 1 round (interrupted)" in sentence(load(folder, "a")) and " after round 1. Go on" in _way_on(folder)
    assert "aoi_rounds_planned" not in exposition(str(folder)).decode()


@pytest.mark.parametrize("name", ["completed", "stopped", "failed", "interrupted"])
def test_what_the_ledger_says_of_a_run_that_has_ended_stands(name, tmp_path):
    folder = ledger(tmp_path / "a", status=name, reason="the disk was full")
    assert glance(folder).state == state.State(name, "the disk was full")
    with only_player(folder):  # held again, and not yet begun
        assert glance(folder).state.name == name


def test_a_refused_client_is_named_with_the_state():
    rounds = [row(3, time.time(), 1.0)]
    about = {"status": "running", "nodes": {"connected": 3, "refused": ["node 7 cannot join: client client-3"]}}
    assert "client-3" in state.tell(about, rounds).detail
    for damaged in (5, "all", {"refused": 3}, {"refused": {"a": 1}}):
        assert "cannot join" not in state.tell({"status": "running", "nodes": damaged}, rounds).detail
