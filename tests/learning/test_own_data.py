"""Tables and regressions: what an npz file may hold, what is wrong with it, and that its numbers are what they say."""

from unittest.mock import ANY

import numpy as np
import pytest
import torch

from aoi_fl.config.run import RunConfig
from aoi_fl.learning import data, partition
from aoi_fl.learning.form import Form
from aoi_fl.learning.npz import read_examples
from aoi_fl.learning.task import Task
from tests.refusals import refused

RNG = np.random.default_rng(7)
X = RNG.normal(size=(60, 5))
Y = X @ np.array([1.0, -2.0, 0.5, 0.0, 3.0]) + 4
LABELS = np.arange(60) % 3


def save(path, y=Y, **changes):
    arrays = {"train_x": X[:40], "train_y": y[:40], "test_x": X[40:], "test_y": y[40:]} | changes
    np.savez(path, **arrays)
    data._load.cache_clear()
    return f"npz:{path}"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "own.npz"


def test_a_table_with_labels_and_one_with_targets(path):
    labelled = data.load(save(path, LABELS), "unused")
    assert labelled.form == Form((5,), 3) and labelled.train_y.dtype == np.int64
    assert (labelled.form.outputs, labelled.form.metric) == (3, "accuracy")
    targets = data.load(save(path), "unused")
    assert targets.form == Form((5,), 0) and targets.train_y.dtype == np.float32
    assert (targets.form.outputs, targets.form.metric) == (1, "rmse")
    np.testing.assert_array_equal(targets.train_x, X[:40].astype(np.float32))
    np.testing.assert_array_equal(targets.test_y, Y[40:].astype(np.float32))


def holed(at, value):
    x = X.copy()
    x[at] = value
    return x[:40]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        (
            {"train_x": holed((7, 2), np.nan)},
            ("train_x in", ANY, r"finite; 1 values are missing or infinite, the first at 7, 2"),
        ),
        ({"train_x": holed((0, 4), np.inf)}, ("train_x in", float("inf"))),
        ({"train_x": holed((0, 4), 1e300)}, ("train_x in", 1e300)),
        ({"train_x": X[:40].astype(int)}, ("train_x in", "of shape (40, 5) and type int64")),
        ({"train_x": X[:40].astype(str)}, ("train_x in", "of shape (40, 5) and type <U32")),
        ({"train_x": X[:40].astype(object)}, ("array train_x in", None, "it holds Python objects")),
        ({"train_x": X[:40, :0]}, ("train_x in", "of shape (40, 0)")),
        ({"train_x": X[:40, 0]}, ("train_x in", "of shape (40,)")),
        ({"test_x": X[40:, :4]}, ("test_x in", "tables of 4 features")),
        ({"test_x": np.zeros((20, 4, 4))}, ("test_x in", "images of 4×4 pixels, 1 channel")),
        ({"train_y": Y[:39]}, ("train_y in", "39 values")),
        ({"train_y": Y[:40, None]}, ("train_y in", "of shape (40, 1)")),
        (
            {"train_y": np.r_[Y[:39], np.nan]},
            ("train_y in", ANY, r"finite; 1 values are missing or infinite, the first at 39"),
        ),
        ({"test_y": np.array(["1.5"] * 20)}, ("test_y in", "of type <U3")),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_what_is_wrong_with_a_table(path, changes, match):
    with refused(*match) as error:
        data.load(save(path, **changes), "unused")
    assert "own.npz" in str(error.value)


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"x": X[:3, :4], "y": Y[:3]}, ("x in", "tables of 4 features")),
        ({"x": np.zeros((3, 8, 8)), "y": Y[:3]}, ("x in", "images of 8×8 pixels, 1 channel")),
        ({"x": X[:3], "y": np.array([1, 2, np.inf])}, ("y in", float("inf"))),
    ],
)
def test_what_is_wrong_with_a_clients_own_table(path, arrays, match):
    np.savez(path, **arrays)
    with refused(*match):
        read_examples(path, (5,), 0)


def test_a_device_needs_only_its_own_file(path, tmp_path):
    np.savez(path, x=X[:9], y=Y[:9])
    task = Task(f"npz:{tmp_path}/not-there.npz", "unused", "lr", "cpu", told=Form((5,), 0))
    examples = task.examples_from(str(path))
    arrays, _ = task.train(
        task.initial_arrays(), examples, round_=1, client=0, learning_rate=0.05, batch_size=3, seed=1, epochs=400
    )
    np.testing.assert_allclose(arrays["1.weight"], [[1.0, -2.0, 0.5, 0.0, 3.0]], atol=0.02)  # the law of the table
    _, rmse = task.evaluate(arrays, examples)
    assert rmse < 0.02


def test_the_rmse_squared_is_the_loss(path):
    task = Task(save(path), "unused", "2nn", "cpu", seed=3)
    arrays = task.initial_arrays()
    model = task._loaded(arrays)
    with torch.no_grad():
        errors = model(torch.from_numpy(task.data.test_x)).numpy()[:, 0] - task.data.test_y
    loss, rmse = task.evaluate_test(arrays)
    assert rmse == pytest.approx(np.sqrt(np.mean(errors.astype(np.float64) ** 2)), rel=1e-6)
    assert loss == pytest.approx(rmse**2, rel=1e-6)


def test_dirichlet_needs_classes():
    with refused("partition", "dirichlet"):
        partition.make(Y.astype(np.float32), 4, kind="dirichlet", seed=1)
    parts = partition.make(Y.astype(np.float32), 4, seed=1)
    assert sorted(np.concatenate(parts).tolist()) == list(range(60))


def test_labels_go_wrong_where_there_are_classes():
    config = RunConfig.parse({"mislabel-rate": 0.05, "policy": "wics"})
    with refused("mislabel-rate", 0.05):
        config.check_form(regression=True, images=False)
    config.check_form(regression=False, images=True)
