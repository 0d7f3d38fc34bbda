"""The served average and the server's momentum: by hand, across a break, and where they are refused."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord

from aoi_fl.config.run import RunConfig
from aoi_fl.server.strategy import make_strategy
from aoi_fl.strategies import RandomSelection, RoundOptions
from aoi_fl.strategies.serving import ServedModel
from tests.fakes import Kept, ScriptedGrid, ToyApp
from tests.refusals import refused

N, BETA = 3, 0.8


def towards_one(array, client, round_):
    """Move an array towards 1 by a tenth, or count the step."""
    return array + (array.dtype.type(0.1) * (1 - array) if array.dtype.kind == "f" else 1)


app = ToyApp(towards_one, examples=1, loss=None)


def model():
    return ArrayRecord({"w": Array(np.array([0.0, 2.0], np.float32)), "steps": Array(np.array([0]))})


def served(notes):
    return [model["w"] for model in notes.models]


def play(folder, rounds, share=BETA, arrays=None, resume=None):
    """Return what was served in the end, what was trained, and what was evaluated, round by round."""
    observer, evaluated = Kept(folder / "checkpoints"), []
    options = RoundOptions(run="r", deterministic=True, join_timeout=0.2, evaluate_clients=0, serve_average=share)
    strategy = RandomSelection(N, options=options, resume=resume, observer=observer)
    grid = ScriptedGrid(app, {"runs-dir": str(folder)}, N)

    def evaluate(round_, record):
        evaluated.append(record["w"].numpy())

    found = strategy.start(grid, arrays or model(), rounds, evaluate_fn=evaluate).arrays
    return found, observer, evaluated


def test_the_served_model_is_the_average_by_hand(tmp_path):
    found, observer, evaluated = play(tmp_path, 6)
    for t in range(1, 7):
        shares = np.array([BETA ** (t - i) for i in range(1, t + 1)])
        by_hand = sum(share * trained for share, trained in zip(shares / shares.sum(), served(observer), strict=False))
        assert evaluated[t] == pytest.approx(by_hand, rel=1e-6)
    assert (found["w"].numpy() == evaluated[-1]).all()
    assert found["w"].numpy().dtype == np.float32
    assert found["steps"].numpy().tolist() == [6]  # no average of counters


def test_training_does_not_notice(tmp_path):
    _, averaged, _ = play(tmp_path / "on", 5)
    found, plain, evaluated = play(tmp_path / "off", 5, share=0.0)
    assert [m.tolist() for m in served(averaged)] == [m.tolist() for m in served(plain)]
    assert (found["w"].numpy() == served(plain)[-1]).all() and (evaluated[-1] == served(plain)[-1]).all()


def test_a_model_without_floats_is_refused():
    with refused("serve_average", 0.5):
        ServedModel(0.5).add(ArrayRecord({"trees": Array(np.zeros(3, np.uint8))}))


def test_the_key_for_momentum_is_fedavgm_by_hand(tmp_path):
    config = RunConfig.parse(
        {"policy": "random", "num-clients": N, "clients-per-round": N, "server-momentum": 0.5, "serve-average": 0.8}
    )
    observer = Kept(tmp_path / "checkpoints")
    strategy = make_strategy(config, "r", observer=observer)
    assert strategy.options.serve_average == 0.8
    strategy.start(ScriptedGrid(app, {"runs-dir": str(tmp_path)}, N), model(), 5)
    at, velocity = np.array([0.0, 2.0]), np.zeros(2)
    for trained in served(observer):
        velocity = 0.5 * velocity + 0.1 * (1 - at)  # every client moves a tenth of the way to 1
        at = at + velocity
        assert trained == pytest.approx(at, rel=1e-5)
