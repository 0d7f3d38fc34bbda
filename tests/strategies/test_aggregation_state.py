"""The state of a Flower strategy across a break: kept in a real checkpoint, or reported as missing."""

import pickle
from functools import partial

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp import strategy as flower

from aoi_fl.server.checkpoint import Checkpoint, Checkpoints
from aoi_fl.strategies import RandomSelection
from aoi_fl.strategies.aggregation import state
from tests import fakes
from tests.fakes import Kept, ToyApp, record_of

N = 3
app = ToyApp(lambda array, client, round_: array * 0.5, examples=lambda client: 1 + client, loss=None)


START = record_of({"w": np.linspace(-1, 1, 6)})


def play(make, folder, rounds, start=START, **how):
    aggregated = partial(RandomSelection, N, aggregation=make())
    return fakes.play(aggregated, app, folder, rounds, N, start=start, **how).result.arrays["w"].numpy()


def interrupted(make, folder, rounds):
    """Play to the end of round 2, and on from its checkpoint."""
    kept = Kept(folder / "checkpoints")
    play(make, folder, 2, notes=kept)
    start, resume = kept.reloaded(2)
    return play(make, folder, rounds, start, resume=resume)


class Moved(flower.FedAvg):
    """An aggregation of which the model shows what it remembers."""

    def aggregate_train(self, server_round, replies):
        arrays, metrics = super().aggregate_train(server_round, replies)
        return record_of({"w": arrays["w"].numpy() + self.step()}), metrics


class Noisy(Moved):
    """Draws from NumPy's generators, and counts."""

    def __init__(self):
        super().__init__()
        self.noise, self.met = [np.random.Generator(bits(7)) for bits in state._BITS.values()], set()

    def step(self):
        self.met.add(len(self.met))
        return sum(noise.normal(size=6) for noise in self.noise) + len(self.met)


class OwnState(Moved):
    """Keeps its state itself, in what no checkpoint holds."""

    def __init__(self):
        super().__init__()
        self.count = iter(range(99))

    def step(self):
        return next(self.count)

    def state_dict(self):
        return {"next": self.count.__reduce__()[2]}

    def load_state_dict(self, state):
        self.count = iter(range(state["next"], 99))


class Halving(Moved):
    """Writes into the configuration, which is one for all rounds."""

    def configure_train(self, server_round, arrays, config, grid):
        self.sent = config["lr"] = config.get("lr", 1.0) / 2
        return super().configure_train(server_round, arrays, config, grid)

    def step(self):
        return self.sent


@pytest.mark.parametrize("make", [Noisy, OwnState, Halving, partial(flower.FedYogi, eta=0.1), flower.FedAvgM])
def test_the_state_of_an_aggregation_survives_a_resume(make, tmp_path, caplog):
    whole = play(make, tmp_path / "whole", 5)
    np.testing.assert_array_equal(interrupted(make, tmp_path / "cut", 5), whole)
    assert "checkpoint" not in caplog.text


class Opaque:
    """Something that only its own strategy understands."""


class Foreign(flower.FedAvg):
    def __init__(self):
        super().__init__(train_metrics_aggr_fn=lambda contents, key: MetricRecord({"n": len(contents)}))
        self.schedule = [1, {"a": Opaque()}]
        self.pulse = Opaque()
        self.seen = 0

    def aggregate_train(self, server_round, replies):
        self.seen += 1
        assert self.seen == server_round
        return super().aggregate_train(server_round, replies)


def test_unsaved_state_is_reported_once_at_save_and_at_load(tmp_path, caplog):
    def reported():
        return [m.split()[0] for m in caplog.messages if "is not in the checkpoint" in m]

    kept = Kept(tmp_path / "checkpoints")
    play(Foreign, tmp_path, 2, notes=kept)
    assert reported() == ["Foreign.schedule", "Foreign.pulse"]  # and nothing of functions
    assert "schedule[1]['a']" in caplog.text
    caplog.clear()
    start, resume = kept.reloaded(2)
    play(Foreign, tmp_path, 4, start, resume=resume)  # what can be kept is: else the third round's count would be 1
    assert reported() == ["Foreign.schedule", "Foreign.pulse"]


VALUES = {
    "arrays": [np.arange(3.0), np.float32(2), np.array(4, np.int8), np.zeros((0, 2))],
    "texts and numbers": {"a": (1, None, True), 2: "x", (1, "y"): float("inf"), "big": 2**100, "bytes": b"abc"},
    "flower's": [ConfigRecord({"a": [1.0], "b": b"x"}), ArrayRecord({"m": Array(np.arange(2))})],
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_value_comes_back_as_it_was(value, tmp_path):
    arrays, lost = state.dump({"value": value})
    checkpoints, found = Checkpoints(tmp_path), {}
    checkpoints.save(Checkpoint(1, {}, arrays))
    assert (lost, state.load(found, checkpoints.load(1).memory)) == ({}, {})
    assert pickle.dumps(found["value"]) == pickle.dumps(value)


def test_a_value_that_holds_itself_is_named():
    ring = [0]
    ring.append(ring)
    arrays, lost = state.dump({"one": [1], "ring": ring})
    assert lost.keys() == {"ring"} and list(arrays) == ["structure"]
