"""The cost of simulated time: rounds with and without it, 10^5 clients, an arena."""

import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from aoi_fl.lab.benchmarks.base import ROOT, Row, alternate, ratio_row
from aoi_fl.lab.experiments.harness.federation import complete_run
from aoi_fl.lab.simulated_time.phone_availability import phones
from aoi_fl.lab.simulated_time.round_clock import RoundClock
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.selection import everyone
from aoi_fl.science.simulate import simulate

CLIENTS, ROUNDS, UPDATES = 300, 20, 15
MANY, LONG = 100_000, 1000


def run(data):
    """Yield the rows."""
    came = []
    always, generated, without = alternate(
        lambda: _play("always"), lambda: came.append(_play("generated")), lambda: _play(""), repeats=5
    )
    what = f"{ROUNDS} rounds of {CLIENTS} clients, digits, in simulated time"
    yield ratio_row(what, "the same without a clock", 1.05, always, without)
    note = f"{came[-1]} updates for {ROUNDS * UPDATES}"
    yield ratio_row(
        f"{what}, of devices that come and go", "the same without a clock", None, generated, without, note=note
    )
    begun = time.perf_counter()
    devices = phones(MANY, 1).devices(1.0)
    people = everyone(np.ones(MANY, np.int64))
    clock = RoundClock(devices, np.ones(MANY), deadline=60.0)
    simulate(MarkovPolicy.optimal(MANY, 1500, 100), people, LONG, 1, clock=clock)
    seconds = time.perf_counter() - begun
    yield Row(f"{LONG} rounds of {MANY:,} devices that come and go, the trace included", "a minute", 60.0, seconds, "s")
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        command = [sys.executable, "-m", "aoi_fl.cli.start", "arena", "--quick", "--quiet"]
        subprocess.run(
            command, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True, stdout=subprocess.DEVNULL
        )
        yield Row("`aoi arena --quick`", "three minutes", 180.0, time.perf_counter() - begun, "s")


def _play(clock):
    """Run the federation and return the number of used updates."""
    from aoi_fl.server.ledger import read

    with tempfile.TemporaryDirectory() as folder:
        keys = {"num-clients": CLIENTS, "num-server-rounds": ROUNDS, "clock": clock, "policy": "random", "seed": 1}
        keys |= {"clients-per-round": UPDATES, "runs-dir": folder, "run-name": "clock"}
        parts = read(complete_run(keys), "participations")
        return sum(part["outcome"] == "trained" for part in parts)
