"""With every client chosen and equal sizes, a Flower strategy as aggregation does what it does alone, bit for bit."""

import gc
import random
from collections.abc import Mapping
from functools import partial

import flwr.clientapp
import numpy as np
import pytest
from flwr.app import Array, ConfigRecord
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import Strategy

from aoi_fl.client import ClientApp
from aoi_fl.server.engine.local import LocalGrid
from aoi_fl.strategies import RandomSelection
from tests.fakes import record_of, reply_of, values
from tests.refusals import refused

CLIENTS, ROUNDS = 7, 4

FEDERATED = {
    "FedAvg": flower.FedAvg,
    "FedAvgM": partial(flower.FedAvgM, server_momentum=0.9, server_learning_rate=0.7),
    "FedProx": partial(flower.FedProx, proximal_mu=0.3),
    "FedMedian": flower.FedMedian,
    "FedTrimmedAvg": partial(flower.FedTrimmedAvg, beta=0.2),
    "Krum": partial(flower.Krum, num_malicious_nodes=1),
    "MultiKrum": partial(flower.MultiKrum, num_malicious_nodes=1, num_nodes_to_select=3),
    "Bulyan": partial(flower.Bulyan, num_malicious_nodes=1),
}
# These promote a float32 model to float64, and ours then has its own type again.
PROMOTING = {
    "QFedAvg": partial(flower.QFedAvg, client_learning_rate=0.5, train_loss_key="train_loss"),
    "FedAdam": partial(flower.FedAdam, eta=0.1),
    "FedYogi": partial(flower.FedYogi, eta=0.1),
    "FedAdagrad": partial(flower.FedAdagrad, eta=0.1),
}
EXACT = {"noise_multiplier": 0.0, "num_sampled_clients": CLIENTS}
FIXED, ADAPTED = {**EXACT, "clipping_norm": 0.5}, {**EXACT, "clipped_count_stddev": 0.0}
WRAPPERS = {
    "server-side, fixed": partial(flower.DifferentialPrivacyServerSideFixedClipping, **FIXED),
    "server-side, adaptive": partial(flower.DifferentialPrivacyServerSideAdaptiveClipping, **ADAPTED),
    "client-side, fixed": partial(flower.DifferentialPrivacyClientSideFixedClipping, **FIXED),
    "client-side, adaptive": partial(flower.DifferentialPrivacyClientSideAdaptiveClipping, **ADAPTED),
}


@pytest.fixture(autouse=True)
def in_order(monkeypatch):
    """Flower draws an order even where it takes everybody, and the sum of floating-point numbers depends on it."""
    monkeypatch.setattr(random, "sample", lambda population, k: list(population)[:k])
    monkeypatch.setattr(gc, "collect", lambda: 0)  # after every sort, some strategies walk all that the tests hold


def model(dtype):
    """Return a model whose arrays have none, one and two dimensions."""
    draw = np.random.default_rng(1).normal
    shapes = {"weight": (3, 4), "bias": (4,), "scale": ()}
    return record_of({name: np.asarray(draw(size=shape), dtype) for name, shape in shapes.items()})


def train(message, context):
    """Go part of the way to a place of this client's own, back where the server asks for it, and report on it."""
    here, config = context.node_config["partition-id"], message.content["config"]
    draw = np.random.default_rng([here, config["server-round"]]).normal
    arrays = {}
    for name, start in values(message.content["arrays"]).items():
        step = draw(size=start.shape) + here / 4 - start
        moved = start + config["lr"] * step / (1 + config.get("proximal-mu", 0.0))
        arrays[name] = np.asarray(moved, start.dtype)
    metrics = {"num-examples": 20, "train_loss": abs(draw()), "curve": [float(here), float(draw())]}
    return reply_of(message, metrics, record_of(arrays))


def evaluate(message, context):
    """Measure the model at this client's own place."""
    here = context.node_config["partition-id"]
    loss = sum(float(np.sum((array - here / 4) ** 2)) for array in values(message.content["arrays"]).values())
    return reply_of(message, {"num-examples": 20, "loss": loss})


def client_app(kind=ClientApp):
    app = kind()
    app.train()(train)
    app.evaluate()(evaluate)
    return app


def play(start, app, folder, dtype="float64"):
    """Play some rounds with all clients in this process."""
    grid = LocalGrid(app, {"seed": 1, "runs-dir": str(folder)}, CLIENTS)
    return start(grid, model(dtype), ROUNDS, train_config=ConfigRecord({"lr": 0.5}))


def state(strategy):
    """Return what a strategy carries from round to round."""
    return {name: value for name, value in vars(strategy).items() if not callable(value) and "nodes" not in name}


def bits(value):
    """Return a value with the types, shapes and bytes of its arrays, so that equal ones are equal bit for bit."""
    if isinstance(value, Array | np.ndarray):
        return value.dtype, value.shape, value.data if isinstance(value, Array) else value.tobytes()
    if isinstance(value, Mapping):
        return {key: bits(one) for key, one in value.items()}
    return list(map(bits, value)) if isinstance(value, list | tuple) else value


def metrics_of(result):
    """Return a result's metrics by round, but for the count that ω takes the place of."""
    kinds = {"train": result.train_metrics_clientapp, "evaluate": result.evaluate_metrics_clientapp}
    return {kind: {n: {**record} for n, record in rounds.items()} for kind, rounds in kinds.items()}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, "float64") for name in FEDERATED | PROMOTING] + [(name, "float32") for name in ("FedAvg", "Krum")],
)
def test_ours_around_theirs_is_theirs(name, dtype, tmp_path):
    make = (FEDERATED | PROMOTING)[name]
    plain, inner = make(min_available_nodes=CLIENTS), make()
    stock = play(plain.start, client_app(flwr.clientapp.ClientApp), tmp_path, dtype)
    ours = play(RandomSelection(CLIENTS, aggregation=inner).start, client_app(), tmp_path, dtype)
    assert bits(stock.arrays) != bits(model(dtype))
    assert bits(ours.arrays) == bits(stock.arrays)
    assert bits(metrics_of(ours)) == bits(metrics_of(stock))
    assert bits(state(inner)) == bits(state(plain))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_our_own_mean_is_fedavg_up_to_rounding(dtype, tmp_path):
    stock = play(flower.FedAvg().start, client_app(flwr.clientapp.ClientApp), tmp_path, dtype)
    ours = play(RandomSelection(CLIENTS).start, client_app(), tmp_path, dtype)
    for name, array in stock.arrays.items():
        np.testing.assert_allclose(ours.arrays[name].numpy(), array.numpy(), rtol=20 * np.finfo(dtype).eps)
        assert ours.arrays[name].dtype == dtype
    for kind, rounds in metrics_of(stock).items():
        for number, record in rounds.items():
            mine = metrics_of(ours)[kind][number]
            assert mine.keys() == record.keys()
            np.testing.assert_allclose(np.hstack([*mine.values()]), np.hstack([*record.values()]), 1e-5, 1e-7)


LOOPS = {**WRAPPERS, "Strategy": lambda s: partial(Strategy.start, s)}


@pytest.mark.parametrize("name", LOOPS)
def test_another_loop_is_refused_by_name_before_it_sends(name, tmp_path):
    loop = LOOPS[name](RandomSelection(CLIENTS))
    with refused("loop", allowed="RandomSelection.start") as error:
        play(getattr(loop, "start", loop), client_app(), tmp_path)
    assert name in WRAPPERS or "Strategy.start" in error.value.value
    assert "PrivateMean" in error.value.remedy
