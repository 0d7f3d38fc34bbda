"""Where a round's seconds go, for clients and an aggregation that take a known time, whoever plays the rounds."""

import time

import numpy as np
from flwr.app import Array, ArrayRecord, MetricRecord
from flwr.serverapp.strategy import FedAvg

from aoi_fl.engine.local import LocalGrid
from aoi_fl.strategies import MarkovParticipation, RoundOptions
from aoi_fl.strategies.records import PHASES
from tests.fakes import Notes, ToyApp, unchanged

TAKES = {"hello": 0.02, "train": 0.05, "aggregate": 0.06, "evaluate": 0.03, "test": 0.04}
CLIENTS = 2


class Slow(FedAvg):
    def aggregate_train(self, server_round, replies):
        time.sleep(TAKES["aggregate"])
        return super().aggregate_train(server_round, replies)


def app() -> ToyApp:
    def takes(message, act, kind, round_, client):
        time.sleep(TAKES.get(kind.removeprefix("query."), 0))
        return act()

    return ToyApp(unchanged, examples=1, evaluates=1.0, spoil=takes)


def central(round_, arrays):
    time.sleep(TAKES["test"])
    return MetricRecord({"loss": 1.0})


def test_each_phase_takes_its_time_and_none_is_counted_twice(tmp_path):
    notes = Notes()
    options = RoundOptions(run="r", seed=1, join_timeout=0.1)
    strategy = MarkovParticipation.optimal(CLIENTS, CLIENTS, 2, options=options, aggregation=Slow(), observer=notes)
    grid = LocalGrid(app(), {"runs-dir": str(tmp_path), "seed": 1}, CLIENTS)
    strategy.start(grid, ArrayRecord({"w": Array(np.zeros(2))}), 2, evaluate_fn=central)
    for record in notes.rounds:
        took = {phase: getattr(record, f"{phase}_seconds") for phase in PHASES}
        assert sum(took.values()) <= record.seconds
        for phase, seconds in took.items():
            each = CLIENTS if phase in ("hello", "train", "evaluate") else 1
            if phase != "hello" or record.round == 1:
                assert seconds >= TAKES.get(phase, 0) * each, phase
