"""The local engine against Flower's Ray engine, with the same Strategy and ClientApp.

The Flower app in ``apps/exchange`` calls :func:`handback` and :func:`ask` as its ServerApp; the local engine calls
them directly.
"""

import json
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord

from aoi_fl.client.state import written_together
from aoi_fl.lab.benchmarks.base import APP, Skipped, Times, ratio_row, timed
from aoi_fl.lab.benchmarks.echo import client_app
from aoi_fl.lab.benchmarks.processes import simulate
from aoi_fl.protocol.records import Log
from aoi_fl.server.engine.local import LocalGrid
from aoi_fl.strategies import MarkovParticipation, RandomSelection, RoundOptions

PARAMETERS = 1_600_000
OPTIONS = RoundOptions(run="bench", seed=1, deterministic=True, evaluate_clients=0)
_PATIENT = replace(OPTIONS, join_timeout=300, ask_timeout=300, train_timeout=300)


class TimedRounds:
    """An observer that times each round, the work of the observer behind it included."""

    def __init__(self, observer=None):
        self._observer = observer or Log()
        self.rounds, self.times = [], Times()
        self._since = time.perf_counter(), time.process_time()

    def clients_seen(self, clients):
        """Hand the clients on."""
        self._observer.clients_seen(clients)

    def round_done(self, record, *rest):
        """Hand the round on, then stop its clock."""
        self._observer.round_done(record, *rest)
        now = time.perf_counter(), time.process_time()
        self.rounds.append(record)
        self.times.wall.append(now[0] - self._since[0])
        self.times.cpu.append(now[1] - self._since[1])
        self._since = now


def model(parameters):
    """Return a model of two arrays."""
    values = np.random.default_rng(1).standard_normal(parameters).astype(np.float32)
    return ArrayRecord({"body": Array(values[:-100]), "head": Array(values[-100:])})


@contextmanager
def local_grid(nodes):
    """Yield a local grid of clients that hand the model back, with their states in memory."""
    with tempfile.TemporaryDirectory() as folder, written_together() as write:
        yield LocalGrid(client_app, {"runs-dir": folder, "seed": 1}, nodes, write)


def handback(grid, config):
    """Run rounds in which clients hand a large model back, and return their times."""
    clock = TimedRounds()
    strategy = RandomSelection(15, options=_PATIENT, observer=clock)
    strategy.start(grid, model(PARAMETERS), config["rounds"])
    if any(r.trained != 15 for r in clock.rounds):
        raise RuntimeError(f"not all clients handed the model back: {clock.rounds[-1]}")
    return clock.times.after_first()


def ask(grid, config):
    """Run rounds in which all clients are asked, and return the times of the questions."""
    asking, spent = MarkovParticipation.optimal(config["clients"], 15, 10, options=_PATIENT), Times()
    asking.policy.plan = timed(asking.policy.plan, spent)  # type: ignore[method-assign]
    asking.start(grid, model(1000), config["rounds"])
    return spent.after_first()


def run(data):
    """Measure both exchanges on both engines."""
    for play, clients, rounds, limit, title in (
        (handback, 100, 8, 1 / 15, "15 of 100 clients hand a 1.6 M-parameter record back, aggregated, local engine"),
        (ask, 1000, 5, 1 / 50, "asking 1000 clients, local engine"),
    ):
        with tempfile.TemporaryDirectory() as folder:
            config = {"clients": clients, "rounds": rounds, "seed": 1, "runs-dir": folder}
            with written_together() as write:
                ours = play(LocalGrid(client_app, config, clients, write), config)
            config |= {"what": f"engines:{play.__name__}", "runs-dir": f"{folder}/ray", "out": f"{folder}/times.json"}
            yield ratio_row(title, "Flower's Ray engine", limit, ours, _on_ray(config, clients), elsewhere=True)


def _on_ray(config, clients):
    ended, log = simulate(APP, config, clients)
    if ended != "finished:completed":
        raise Skipped(f"Flower's Ray engine did not finish: {ended} {log[-300:]}")
    return Times(**json.loads(Path(config["out"]).read_text()))
