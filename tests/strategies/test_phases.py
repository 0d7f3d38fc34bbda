"""Where a round's seconds go, for clients and an aggregation that take a known time, whoever plays the rounds."""

import time

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg, Strategy

from aoi_fl.client import ClientApp
from aoi_fl.engine.local import LocalGrid
from aoi_fl.strategies import MarkovParticipation, RoundOptions
from aoi_fl.strategies.records import PHASES, Log, RoundRecord

TAKES = {"hello": 0.02, "train": 0.05, "aggregate": 0.06, "evaluate": 0.03, "test": 0.04}
CLIENTS = 2


class Slow(FedAvg):
    def aggregate_train(self, server_round, replies):
        time.sleep(TAKES["aggregate"])
        return super().aggregate_train(server_round, replies)


class Keeps(Log):
    def __init__(self):
        self.rounds: list[RoundRecord] = []

    def round_done(self, record, *_):
        self.rounds.append(record)


def app() -> ClientApp:
    app = ClientApp()

    @app.introduce()
    def introduce(context, ask):
        time.sleep(TAKES["hello"])
        return {"num-examples": 1}

    @app.train()
    def train(message, context):
        time.sleep(TAKES["train"])
        content = {"arrays": message.content["arrays"], "metrics": MetricRecord({"num-examples": 1, "loss": 1.0})}
        return Message(RecordDict(content), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        time.sleep(TAKES["evaluate"])
        return Message(RecordDict({"metrics": MetricRecord({"num-examples": 1, "loss": 1.0})}), reply_to=message)

    return app


def central(round_, arrays):
    time.sleep(TAKES["test"])
    return MetricRecord({"loss": 1.0})


@pytest.mark.parametrize("start", [MarkovParticipation.start, Strategy.start], ids=["ours", "Flower's"])
def test_each_phase_takes_its_time_and_none_is_counted_twice(start, tmp_path):
    notes = Keeps()
    options = RoundOptions(run="r", seed=1, join_timeout=0.1)
    strategy = MarkovParticipation.optimal(CLIENTS, CLIENTS, 2, options=options, aggregation=Slow(), observer=notes)
    grid = LocalGrid(app(), {"runs-dir": str(tmp_path), "seed": 1}, CLIENTS)
    start(strategy, grid, ArrayRecord({"w": Array(np.zeros(2))}), 2, evaluate_fn=central)
    strategy._run.close()
    for record in notes.rounds:
        took = {phase: getattr(record, f"{phase}_seconds") for phase in PHASES}
        if start is Strategy.start:  # it tests the model after the round
            assert took.pop("test") is None
        assert sum(took.values()) <= record.seconds
        for phase, seconds in took.items():
            each = CLIENTS if phase in ("hello", "train", "evaluate") else 1
            if phase != "hello" or record.round == 1:
                assert seconds >= TAKES.get(phase, 0) * each, phase


def test_runs_without_evaluation_have_no_such_phases(tmp_path):
    notes = Keeps()
    options = RoundOptions(run="r", seed=1, join_timeout=0.1, evaluate_clients=0)
    strategy = MarkovParticipation.optimal(CLIENTS, CLIENTS, 2, options=options, observer=notes)
    grid = LocalGrid(app(), {"runs-dir": str(tmp_path), "seed": 1}, CLIENTS)
    strategy.start(grid, ArrayRecord({"w": Array(np.zeros(2))}), 1)
    assert notes.rounds[0].evaluate_seconds is None and notes.rounds[0].test_seconds is None
    assert notes.rounds[0].aggregate_seconds < notes.rounds[0].train_seconds
