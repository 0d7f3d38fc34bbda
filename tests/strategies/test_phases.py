"""Where a round's seconds go, for clients and an aggregation that take a known time."""

import time
from functools import partial

from flwr.app import MetricRecord
from flwr.serverapp.strategy import FedAvg

from aoi_fl.protocol.records import PHASES
from aoi_fl.server.engine.local import LocalGrid
from aoi_fl.strategies import RandomSelection
from tests.fakes import ToyApp, play, zeros

TAKES = {"hello": 0.02, "train": 0.05, "aggregate": 0.06, "evaluate": 0.03, "test": 0.04}


class Slow(FedAvg):
    def aggregate_train(self, server_round, replies):
        time.sleep(TAKES["aggregate"])
        return super().aggregate_train(server_round, replies)


def test_each_phase_takes_its_time_and_none_is_counted_twice(tmp_path):
    def behave(message, act, kind, round_, client):
        time.sleep(TAKES[kind.removeprefix("query.")])
        return act()

    def central(round_, arrays):
        time.sleep(TAKES["test"])
        return MetricRecord({"loss": 1.0})

    make, app = partial(RandomSelection, 2, aggregation=Slow()), ToyApp(evaluates=1.0, spoil=behave)
    how = {"start": zeros(), "evaluate_fn": central, "evaluate_clients": None}
    notes = play(make, app, tmp_path, 2, 2, LocalGrid, **how)
    for record in notes.rounds:
        took = {phase: getattr(record, f"{phase}_seconds") for phase in PHASES}
        assert sum(took.values()) <= record.seconds
        for phase, seconds in TAKES.items():
            if phase != "hello" or record.round == 1:
                assert took[phase] >= seconds * (2 if phase in ("hello", "train", "evaluate") else 1), phase
