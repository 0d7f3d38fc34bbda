"""A federation in this process for tests: an honest app, one that misbehaves, a model, and the rounds they play."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

from aoi_fl.client import ClientApp
from aoi_fl.engine.local import LocalGrid
from aoi_fl.science.errors import NothingTrainedError
from aoi_fl.strategies import RandomSelection, RoundOptions

MODEL = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([0.5, -0.5]), "steps": np.array(3)}
HOSTILE = 1  # the client that misbehaves


class Notes:
    """An observer that keeps everything; ``memory`` by round, as a checkpoint would hold it."""

    def __init__(self) -> None:
        self.clients, self.rounds, self.state_dict = [], [], {}

    def clients_seen(self, clients):
        self.clients += clients

    def round_done(self, record, arrays, memory):
        self.rounds.append(record)
        self.state_dict[record.round] = {name: np.array(array) for name, array in memory.items()}


def steps_of(partition: int) -> dict[str, np.ndarray]:
    """Return what one round of training adds to the model on this client."""
    return {
        "w": np.full((2, 3), partition + 1, np.float32),
        "b": np.array([0.25 * partition, 1.0]),
        "steps": np.array(2),
    }


def examples_of(partition: int) -> int:
    return 10 * (partition + 1)


def honest(message: Message, context) -> Message:
    partition = context.node_config["partition-id"]
    arrays = {k: Array(np.asarray(v.numpy() + steps_of(partition)[k])) for k, v in message.content["arrays"].items()}
    metrics = MetricRecord({"num-examples": examples_of(partition), "loss": 1.0 + partition})
    return Message(RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics}), reply_to=message)


def honest_app(kind: type[ClientApp] = ClientApp) -> ClientApp:
    app = kind()
    app.train()(honest)

    @app.introduce()
    def introduce(context, ask):
        return {"num-examples": examples_of(context.node_config["partition-id"])}

    @app.evaluate()
    def evaluate(message, context):
        partition = context.node_config["partition-id"]
        metrics = {"num-examples": examples_of(partition), "loss": float(partition), "accuracy": 0.5}
        return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)

    return app


def hostile_app(spoil: Callable, kinds: tuple[str, ...] = ("train",), whom=(HOSTILE,)) -> ClientApp:
    """Return an app whose clients ``whom`` answer messages of these kinds with what ``spoil`` makes of them."""

    class Hostile(ClientApp):
        def __call__(self, message, context):
            meant = message.metadata.message_type in kinds and context.node_config["partition-id"] in whom
            return (
                spoil(message, lambda: super(Hostile, self).__call__(message, context))
                if meant
                else super().__call__(message, context)
            )

    return honest_app(Hostile)


def model() -> ArrayRecord:
    return ArrayRecord({k: Array(v) for k, v in MODEL.items()})


def values(arrays: Mapping[str, Array]) -> dict[str, np.ndarray]:
    return {k: v.numpy() for k, v in arrays.items()}


def play(make, app, tmp_path, rounds=2, nodes=4, grid=LocalGrid, run="r", notes=None, start=None, **options):
    """Play rounds and return observer, result and strategy."""
    notes = Notes() if notes is None else notes
    options = {"run": run, "seed": 3, "deterministic": True, "join_timeout": 0.2, "evaluate_clients": 0} | options
    strategy = make(options=RoundOptions(**options), observer=notes)
    result = strategy.start(grid(app, {"runs-dir": str(tmp_path), "seed": 3}, nodes), start or model(), rounds)
    return notes, result, strategy


def play_in_vain(make, app, tmp_path, **options) -> Notes:
    """Play rounds in which nothing is trained, which is an error in the end, and return the observer."""
    notes = Notes()
    with pytest.raises(NothingTrainedError, match="not one update could be used"):
        play(make, app, tmp_path, notes=notes, **options)
    return notes


def everyone(**settings):
    return RandomSelection(4, **settings)


def expected(clients, rounds: int) -> dict[str, np.ndarray]:
    """Return the model after rounds in which these clients took part, weighted by their examples."""
    sizes = np.array([examples_of(c) for c in clients], float)
    return {
        k: v + rounds * sum(s * steps_of(c)[k] for c, s in zip(clients, sizes / sizes.sum(), strict=True))
        for k, v in MODEL.items()
    }


def same_model(arrays, wanted) -> None:
    found = values(arrays)
    assert list(found) == list(MODEL)
    for key, value in wanted.items():
        assert found[key].dtype == MODEL[key].dtype and found[key].shape == MODEL[key].shape
        np.testing.assert_allclose(found[key], value, rtol=1e-6)


# What a client may do in place of its work ---------------------------------------------------------------------------


def with_metrics(**metrics) -> Callable:
    def spoil(message, act):
        reply = act()
        reply.content["metrics"] = MetricRecord({k.replace("_", "-"): v for k, v in metrics.items()})
        return reply

    return spoil


def raises(error: BaseException) -> Callable:
    def spoil(message, act):
        raise error

    return spoil
