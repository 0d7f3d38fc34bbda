"""The served average and the server's momentum by hand."""

from functools import partial

import numpy as np
import pytest

from aoi_fl.config.run import RunConfig
from aoi_fl.server.strategy import make_strategy
from aoi_fl.strategies import RandomSelection
from tests import fakes
from tests.fakes import Notes, ScriptedGrid, ToyApp, record_of

N, BETA = 3, 0.8


def towards_one(array, client, round_):
    """Move an array towards 1 by a tenth, or count the step."""
    return array + (array.dtype.type(0.1) * (1 - array) if array.dtype.kind == "f" else 1)


app = ToyApp(towards_one, examples=1, loss=None)


def model():
    return record_of({"w": np.array([0.0, 2.0], np.float32), "steps": np.array([0]), "scale": np.array(0.5)})


def play(folder, share):
    """Return what was served in the end, what was trained, and what was evaluated, round by round."""
    evaluated = []
    evaluate = lambda round_, record: evaluated.append(record["w"].numpy())  # noqa: E731
    how = {"start": model(), "evaluate_fn": evaluate, "serve_average": share}
    notes = fakes.play(partial(RandomSelection, N), app, folder, 6, N, **how)
    return notes.result.arrays, [trained["w"] for trained in notes.models], evaluated


def test_the_served_model_is_the_average_by_hand(tmp_path):
    served, trained, evaluated = play(tmp_path / "on", BETA)
    for t in range(1, 7):
        shares = np.array([BETA ** (t - i) for i in range(1, t + 1)])
        by_hand = sum(share * model for share, model in zip(shares / shares.sum(), trained, strict=False))
        assert evaluated[t] == pytest.approx(by_hand, rel=1e-6)
    assert (served["w"].numpy() == evaluated[-1]).all() and served["w"].numpy().dtype == np.float32
    assert served["steps"].numpy().tolist() == [6]  # no average of counters
    plain, same, _ = play(tmp_path / "off", 0.0)
    np.testing.assert_array_equal(trained, same)  # training does not notice
    assert (plain["w"].numpy() == same[-1]).all()


def test_the_key_for_momentum_is_fedavgm_by_hand(tmp_path):
    keys = {"policy": "random", "num-clients": N, "clients-per-round": N, "server-momentum": 0.5, "serve-average": 0.8}
    notes = Notes()
    strategy = make_strategy(RunConfig.parse(keys), "r", observer=notes)
    assert strategy.options.serve_average == 0.8
    strategy.start(ScriptedGrid(app, {"runs-dir": str(tmp_path)}, N), model(), 5)
    at, velocity = np.array([0.0, 2.0]), np.zeros(2)
    for trained in notes.models:
        velocity = 0.5 * velocity + 0.1 * (1 - at)  # every client moves a tenth of the way to 1
        at = at + velocity
        assert trained["w"] == pytest.approx(at, rel=1e-5)
