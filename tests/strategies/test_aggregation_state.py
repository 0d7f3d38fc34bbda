"""What a Flower strategy remembers, across a break: kept in a real checkpoint, or said to be missing."""

import random
from collections import Counter, OrderedDict, deque

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp import strategy as flower

from aoi_fl.server.checkpoint import Checkpoint, Checkpoints
from aoi_fl.strategies import RandomSelection, RoundOptions
from aoi_fl.strategies.aggregation import state
from tests.fakes import Kept, ScriptedGrid, ToyApp

N = 3
app = ToyApp(lambda array, client, round_: array * 0.5, examples=lambda client: 1 + client, loss=None)


def model() -> ArrayRecord:
    return ArrayRecord({"w": Array(np.linspace(-1, 1, 6))})


def play(make, folder, rounds, arrays=None, resume=None, observer=None):
    options = RoundOptions(run="r", deterministic=True, join_timeout=0.2, evaluate_clients=0)
    strategy = RandomSelection(N, aggregation=make(), options=options, resume=resume, observer=observer)
    grid = ScriptedGrid(app, {"runs-dir": str(folder)}, N)
    return strategy.start(grid, arrays or model(), rounds).arrays["w"].numpy()


def interrupted(make, folder, after, rounds):
    kept = Kept(folder / "checkpoints")
    play(make, folder, after, observer=kept)
    arrays, resume = kept.reloaded(after)
    return play(make, folder, rounds, arrays, resume)


class Noisy(flower.FedAvg):
    """An aggregation with a memory of many kinds, all of which tell in the model."""

    def __init__(self):
        super().__init__()
        self.noise = self.same_noise = np.random.default_rng(7)
        self.offspring = np.random.Generator(np.random.Philox(3))
        self.legacy = np.random.RandomState(5)
        self.python = random.Random(4)
        self.last = deque(maxlen=2)
        self.met = set()
        self.trace = {"norms": [np.zeros(2), (1, 2.5)], "phase": 1j, "calls": Counter()}

    def aggregate_train(self, server_round, replies):
        arrays, metrics = super().aggregate_train(server_round, replies)
        self.offspring = self.offspring.spawn(2)[1]
        self.trace["norms"][0] = self.trace["norms"][0] + server_round
        self.trace["calls"]["train"] += 1
        self.trace["phase"] *= 1 + 1j
        self.last.append(server_round)
        self.met.add(server_round % 2)
        told = self.trace["norms"][0].sum() + self.trace["calls"]["train"] + self.trace["phase"].imag + sum(self.last)
        drawn = self.noise.normal(size=6) + self.same_noise.normal() + self.offspring.normal()
        drawn = drawn + self.legacy.normal() + self.python.gauss(0, 1) + len(self.met) + told
        return ArrayRecord({k: Array(v.numpy() + drawn) for k, v in arrays.items()}), metrics


def test_generators_queues_and_sets_survive_a_resume(tmp_path, caplog):
    whole = play(Noisy, tmp_path / "whole", 5)
    np.testing.assert_array_equal(interrupted(Noisy, tmp_path / "cut", 2, 5), whole)
    assert "checkpoint" not in caplog.text


class Halving(flower.FedAvg):
    """An aggregation that writes into the configuration, which is one for all rounds."""

    def configure_train(self, server_round, arrays, config, grid):
        config["lr"] = config.get("lr", 1.0) / 2
        self.sent = config["lr"]
        return super().configure_train(server_round, arrays, config, grid)


def test_what_it_wrote_into_the_configuration_outlives_a_break(tmp_path):
    made = []

    def make():
        made.append(Halving())
        return made[-1]

    interrupted(make, tmp_path, 2, 3)
    assert [strategy.sent for strategy in made] == [0.25, 0.125]


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
    kept = Kept(tmp_path / "checkpoints")
    play(Foreign, tmp_path, 2, observer=kept)
    said = [r.getMessage() for r in caplog.records if "is not in the checkpoint" in r.getMessage()]
    assert len(said) == 2  # of each once, and nothing of functions
    assert said[0].startswith("Foreign.schedule is not in the checkpoint (schedule[1]['a'] is of type ")
    assert "Opaque, which a checkpoint cannot hold): a resumed run would start it anew" in said[0]
    assert said[1].startswith("Foreign.pulse is not in the checkpoint")
    caplog.clear()
    arrays, resume = kept.reloaded(2)
    play(Foreign, tmp_path, 4, arrays, resume)  # what can be kept is: else the third round's count would be 1
    said = [r.getMessage() for r in caplog.records if "is not in the checkpoint" in r.getMessage()]
    assert [text.split()[0] for text in said] == ["Foreign.schedule", "Foreign.pulse"]
    assert "the resumed run starts it anew" in said[0]


OPTIMIZERS = {
    "FedAdam": lambda: flower.FedAdam(eta=0.1, beta_1=0.9, beta_2=0.99),
    "FedAvgM": lambda: flower.FedAvgM(server_learning_rate=0.5, server_momentum=0.9),
    "FedYogi": lambda: flower.FedYogi(eta=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_optimizers_state_is_carried_across_a_resume(name, tmp_path):
    whole = play(OPTIMIZERS[name], tmp_path / "whole", 5)
    assert interrupted(OPTIMIZERS[name], tmp_path / "cut", 2, 5).tobytes() == whole.tobytes()


VALUES = {
    "arrays": [np.arange(3.0), np.float32(2), np.array(4, np.int8), np.zeros((0, 2))],
    "bytes": [b"abc", bytearray(b"de"), b""],
    "texts and numbers": {"a": (1, None, True), 2: "x", (1, "y"): float("inf"), "big": 2**100},
    "arrays of other types": [np.array([1j]), np.array(["x", "yz"]), np.arange(3, dtype=">i4"), np.datetime64("2024")],
    "mappings": [OrderedDict(b=1, a=2), Counter("abca"), {}],
    "sets": [{1, (2, "a")}, frozenset({"b"}), set()],
    "queues": [deque([1, [2]], 3), deque()],
    "flower's": [ConfigRecord({"a": [1.0], "b": b"x"}), MetricRecord({"m": [1, 2]}), Array(np.arange(2))],
}


@pytest.mark.parametrize("what", VALUES)
def test_a_value_comes_back_as_it_was(what, tmp_path):
    strategy, other = flower.FedAvg(), flower.FedAvg()
    strategy.value = VALUES[what]
    arrays, lost = state.dump(strategy)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(Checkpoint("r", 1, {}, arrays))
    assert (lost, state.load(other, checkpoints.load("r", 1).memory)) == ({}, {})
    same(other.value, strategy.value)


def same(found, wanted) -> None:
    assert type(found) is type(wanted)
    if isinstance(wanted, Array):
        found, wanted = found.numpy(), wanted.numpy()
    if isinstance(wanted, np.ndarray):
        assert (found.dtype, found.shape, found.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())
    elif isinstance(wanted, list | tuple | deque):
        assert getattr(found, "maxlen", None) == getattr(wanted, "maxlen", None) and len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key in wanted:
            same(found[key], wanted[key])
    else:
        assert found == wanted


def test_shared_objects_stay_shared_after_a_resume():
    strategy, other = flower.FedAvg(), flower.FedAvg()
    strategy.one = strategy.two = [1]
    strategy.ring = [0]
    strategy.ring.append(strategy.ring)
    strategy.three = {"a": strategy.one, "record": ArrayRecord({"w": Array(np.ones(2))})}
    arrays, lost = state.dump(strategy)
    assert lost == {"ring": "ring[1] holds itself"} == state.load(other, arrays)
    other.one.append(2)
    assert other.two == other.three["a"] == [1, 2] and not hasattr(other, "ring")
    np.testing.assert_array_equal(other.three["record"]["w"].numpy(), np.ones(2))
