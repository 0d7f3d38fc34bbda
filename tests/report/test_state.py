"""Whether a run lives, told by the lock on its folder and the rounds in its ledger."""

import subprocess
import sys

from aoi_fl.cli.interrupt import _way_on
from aoi_fl.protocol.records import RoundRecord
from aoi_fl.report.metrics import exposition
from aoi_fl.report.runs import load
from aoi_fl.report.summary import sentence
from aoi_fl.report.summary_card import glance
from aoi_fl.server.folder import is_played, only_player
from tests.processes import ROOT
from tests.report.recorded import record

HOLDER = """
import sys, time
from pathlib import Path
from aoi_fl.server.folder import only_player
with only_player(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


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
    assert "aoi_rounds_planned" not in exposition(folder).decode()
