"""Flower's programs beside a benchmark: nothing outlives their folder, whoever has started it."""

import sys
import time

import psutil

from aoi_fl.lab.benchmarks.processes import programs

WRITES = "import itertools, pathlib, sys; [pathlib.Path(sys.argv[1], f'{i}').touch() for i in itertools.count()]"
ORPHAN = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {WRITES!r}, sys.argv[1]]).pid)"


def test_leftover_processes_end_and_write_no_more():
    with programs() as running:
        running.start(sys.executable, "-c", ORPHAN, str(running.folder)).wait()
        while not (running.folder / "0").exists():
            time.sleep(0.01)
        orphan = psutil.Process(int(running.log_tail()))
        assert orphan.is_running()
    assert not running.folder.exists()
    assert not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE
