"""The local engine against Flower's Ray engine, with the same Strategy and ClientApp.

The Flower app in ``apps/exchange`` calls :func:`play` as its ServerApp; the local engine calls it directly.
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
HANDBACK, ASK = "handback", "ask"


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


def play(grid, config):
    """Run some rounds and return the measured times."""
    options = replace(OPTIONS, join_timeout=300, ask_timeout=300, train_timeout=300)
    rounds = config["rounds"]
    if config["what"] == HANDBACK:
        clock = TimedRounds()
        strategy = RandomSelection(15, options=options, observer=clock)
        strategy.start(grid, model(PARAMETERS), rounds)
        times = clock.times.after_first()
        if any(r.trained != 15 for r in clock.rounds):
            raise RuntimeError(f"not all clients handed the model back: {clock.rounds[-1]}")
    else:
        asking, spent = MarkovParticipation.optimal(config["clients"], 15, 10, options=options), Times()
        asking.policy.plan = timed(asking.policy.plan, spent)  # type: ignore[method-assign]
        asking.start(grid, model(1000), rounds)
        times = spent.after_first()
    return times


def run(data):
    """Measure both exchanges on both engines."""
    for what, clients, rounds, limit, title in (
        (HANDBACK, 100, 8, 1 / 15, "15 of 100 clients hand a 1.6 M-parameter record back, aggregated, local engine"),
        (ASK, 1000, 5, 1 / 50, "asking 1000 clients, local engine"),
    ):
        with tempfile.TemporaryDirectory() as folder:
            config = {"what": what, "clients": clients, "rounds": rounds, "seed": 1, "runs-dir": folder, "out": ""}
            with written_together() as write:
                ours = play(LocalGrid(client_app, config, clients, write), config)
            config |= {"runs-dir": f"{folder}/ray", "out": f"{folder}/times.json"}
            yield ratio_row(title, "Flower's Ray engine", limit, ours, _on_ray(config, clients), elsewhere=True)


def _on_ray(config, clients):
    ended, log = simulate(APP, config, clients)
    if ended != "finished:completed":
        raise Skipped(f"Flower's Ray engine did not finish: {ended} {log[-300:]}")
    return Times(**json.loads(Path(config["out"]).read_text()))
