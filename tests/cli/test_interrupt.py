"""Ctrl-C and SIGTERM, sent to real processes: the run is interrupted, not failed, and the command says how to go on."""

import os
import signal
import subprocess
import sys
import time

import pytest

from aoi_fl.report.runs import load
from tests.ledgers import about_of, rounds_of
from tests.processes import ROOT

AOI = (sys.executable, "-m", "aoi_fl.cli.start")
RUN = (
    "run -cnum-clients=6 -cclients-per-round=3 -cmodel=lr -clocal-epochs=1 -crun-name=mine -cdevice=cpu -cpreset=papers"
)


def spawn(folder, command):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, env=environment, **pipes)


def begin(folder, line):
    return spawn(folder, [*AOI, *line.split()])


def wait_for_round(process, number):
    for line in process.stderr:
        if line.startswith("round ") and int(line.split()[1].split("/")[0]) >= number:
            return
    raise AssertionError("the run ended first")


def interrupted(process, number, status):
    """Ask a process to end, and return what it says then."""
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (status, "")
    assert "Traceback" not in err
    return err


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_asked_to_end_is_interrupted_and_goes_on(number, status, tmp_path):
    process = begin(tmp_path, f"{RUN} -cnum-server-rounds=100000")
    wait_for_round(process, 3)
    err = interrupted(process, number, status)
    folder = tmp_path / "runs/mine"
    done = len(rounds_of(folder))
    assert err.endswith(f"\naoi: interrupted after round {done} of 100000. Go on with: aoi resume mine\n")
    assert about_of(folder)["status"] == "interrupted" == load(folder, "mine").status
    again = begin(tmp_path, "resume mine")
    wait_for_round(again, done + 1)
    assert load(folder, "mine").status == "running"
    again.kill()  # now nobody can write that it was interrupted: nobody holding the folder tells
    again.communicate()
    assert about_of(folder)["status"] == "running"
    assert load(folder, "mine").status == "interrupted"


@pytest.mark.parametrize("seconds", [0.05, pytest.param(1.0, marks=pytest.mark.slow)])
def test_ctrl_c_during_start_up_is_no_traceback(seconds, tmp_path):
    code = "import aoi_fl.cli.start; print(flush=True); aoi_fl.cli.start.main()"
    process = spawn(tmp_path, [sys.executable, "-c", code, *RUN.split()])
    process.stdout.readline()
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in err and "Error" not in err
