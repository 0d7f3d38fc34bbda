"""The served average and the server's momentum: by hand, across a break, and where they are refused."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from aoi_fl.client import ClientApp
from aoi_fl.config.run import RunConfig
from aoi_fl.engine.local import LocalGrid
from aoi_fl.server.checkpoint import Checkpoint, Checkpoints
from aoi_fl.server.strategy import make_strategy
from aoi_fl.strategies import RandomSelection, RoundOptions
from aoi_fl.strategies.plan import Resume
from aoi_fl.strategies.serving import ServedModel
from tests.refusals import refused

N, BETA = 3, 0.8
app = ClientApp()


@app.train()
def train(message, context):
    """Move every array towards 1 by a tenth, and count the step."""
    arrays = {k: v.numpy() for k, v in message.content["arrays"].items()}
    arrays = {k: v + (v.dtype.type(0.1) * (1 - v) if v.dtype.kind == "f" else 1) for k, v in arrays.items()}
    record = RecordDict({"arrays": ArrayRecord({k: Array(v) for k, v in arrays.items()})})
    record["metrics"] = MetricRecord({"num-examples": 1})
    return Message(record, reply_to=message)


def model():
    return ArrayRecord({"w": Array(np.array([0.0, 2.0], np.float32)), "steps": Array(np.array([0]))})


class Kept:
    """An observer that keeps checkpoints in files, as a run does."""

    def __init__(self, folder):
        self.checkpoints, self.clients, self.models = Checkpoints(folder), [], []

    def clients_seen(self, clients):
        self.clients += clients

    def round_done(self, record, arrays, memory):
        values = {k: v.numpy() for k, v in arrays.items()}
        self.models.append(values["w"])
        self.checkpoints.save(Checkpoint("r", record.round, values, memory))

    def resume(self, round_):
        found = self.checkpoints.load("r", round_)
        arrays = ArrayRecord({k: Array(v) for k, v in found.model.items()})
        return arrays, Resume(round_ + 1, self.clients, found.memory)


def play(folder, rounds, share=BETA, arrays=None, resume=None):
    """Return what was served in the end, what was trained, and what was evaluated, round by round."""
    observer, evaluated = Kept(folder / "checkpoints"), []
    options = RoundOptions(run="r", deterministic=True, join_timeout=0.2, evaluate_clients=0, serve_average=share)
    strategy = RandomSelection(N, options=options, resume=resume, observer=observer)
    grid = LocalGrid(app, {"runs-dir": str(folder)}, N)

    def evaluate(round_, record):
        evaluated.append(record["w"].numpy())

    found = strategy.start(grid, arrays or model(), rounds, evaluate_fn=evaluate).arrays
    return found, observer, evaluated


def test_the_served_model_is_the_average_by_hand(tmp_path):
    found, observer, evaluated = play(tmp_path, 6)
    for t in range(1, 7):
        shares = np.array([BETA ** (t - i) for i in range(1, t + 1)])
        by_hand = sum(share * trained for share, trained in zip(shares / shares.sum(), observer.models, strict=False))
        assert evaluated[t] == pytest.approx(by_hand, rel=1e-6)
    assert (found["w"].numpy() == evaluated[-1]).all()
    assert found["w"].numpy().dtype == np.float32
    assert found["steps"].numpy().tolist() == [6]  # no average of counters


def test_training_does_not_notice(tmp_path):
    _, averaged, _ = play(tmp_path / "on", 5)
    found, plain, evaluated = play(tmp_path / "off", 5, share=0.0)
    assert [m.tolist() for m in averaged.models] == [m.tolist() for m in plain.models]
    assert (found["w"].numpy() == plain.models[-1]).all() and (evaluated[-1] == plain.models[-1]).all()


@pytest.mark.parametrize("after", [1, 3, 5])
def test_a_resumed_run_serves_the_same(tmp_path, after):
    whole, _, _ = play(tmp_path / "whole", 5)
    _, observer, _ = play(tmp_path / "part", after)
    arrays, resume = observer.resume(after)
    again, _, _ = play(tmp_path / "part", 5, arrays=arrays, resume=resume)
    assert again["w"].numpy().tolist() == whole["w"].numpy().tolist()


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_share_out_of_range_is_refused(share):
    with refused("serve_average"):
        ServedModel(share)
    with refused("smoothing", f"average:{share}"):
        RunConfig.parse({"smoothing": f"average:{share}"})


def test_a_model_without_floats_is_refused():
    with refused("serve_average", 0.5):
        ServedModel(0.5).add(ArrayRecord({"trees": Array(np.zeros(3, np.uint8))}))


def test_a_loop_that_is_not_ours_is_refused(tmp_path):
    strategy = RandomSelection(N, options=RoundOptions(run="r", serve_average=0.5))
    grid = LocalGrid(app, {"runs-dir": str(tmp_path)}, N)
    with refused("serve_average"):
        strategy.configure_train(1, model(), ConfigRecord(), grid)


def test_the_key_for_momentum_is_fedavgm_by_hand(tmp_path):
    config = RunConfig.parse(
        {"policy": "random", "num-clients": N, "clients-per-round": N, "server-momentum": 0.5, "serve-average": 0.8}
    )
    observer = Kept(tmp_path / "checkpoints")
    strategy = make_strategy(config, "r", observer=observer)
    assert strategy.options.serve_average == 0.8
    strategy.start(LocalGrid(app, {"runs-dir": str(tmp_path)}, N), model(), 5)
    at, velocity = np.array([0.0, 2.0]), np.zeros(2)
    for trained in observer.models:
        velocity = 0.5 * velocity + 0.1 * (1 - at)  # every client moves a tenth of the way to 1
        at = at + velocity
        assert trained == pytest.approx(at, rel=1e-5)


@pytest.mark.parametrize(
    ("keys", "key"),
    [({"late-rounds": 2}, "late-rounds"), ({"weights": "unbiased"}, "weights"), ({"policy": "f3ast"}, "weights")],
)
def test_momentum_with_other_than_means_is_refused(keys, key):
    with refused(key, allowed="momentum"):
        RunConfig.parse({"policy": "random", "smoothing": "momentum:0.5", **keys})
    RunConfig.parse({"policy": "f3ast", "weights": "size", "smoothing": "momentum:0.5"})
