"""Tables and regressions: what an npz file may hold, what is wrong with it, and that its numbers are what they say."""

import numpy as np
import pytest
import torch

from aoi_fl.learning import data, partition
from aoi_fl.learning.form import Form
from aoi_fl.learning.npz import read_examples
from aoi_fl.learning.task import Task
from aoi_fl.science.errors import ConfigError
from aoi_fl.server.config import RunConfig

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


def test_images_may_have_targets(path):
    images = RNG.integers(0, 256, (6, 4, 4), np.uint8)
    found = data.load(save(path, train_x=images, train_y=Y[:6], test_x=images, test_y=Y[:6]), "unused")
    assert found.form == Form((1, 4, 4), 0)


def holed(at, value):
    x = X.copy()
    x[at] = value
    return x[:40]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"train_x": holed((7, 2), np.nan)}, "train_x in .* has 1 values .* first in row 7, column 2, with value nan"),
        ({"train_x": holed((0, 4), np.inf)}, "row 0, column 4, with value inf: fill them in"),
        ({"train_x": holed((0, 4), 1e300)}, r"row 0, column 4, with value 1e\+300"),
        ({"train_x": X[:40].astype(int)}, r"type int64: the features of a table .*\.astype\('float32'\)"),
        ({"train_x": X[:40].astype(str)}, "type <U.*: the features of a table are floating point"),
        ({"train_x": X[:40].astype(object)}, "train_x in .* cannot be read .*Python objects"),
        ({"train_x": X[:40, :0]}, r"shape \(40, 0\): a table is \(N, features\)"),
        ({"train_x": X[:40, 0]}, r"shape \(40,\): .* a table is \(N, features\)"),
        ({"test_x": X[40:, :4]}, "test_x in .* has tables of 4 features, not tables of 5 features: all examples"),
        ({"test_x": np.zeros((20, 4, 4))}, "images of 4×4 pixels, 1 channel, not tables of 5"),
        ({"train_y": Y[:39]}, "train_y in .* has 39 values for 40 examples"),
        ({"train_y": Y[:40, None]}, r"shape \(40, 1\) for 40 examples: .* Flatten it with \.reshape\(-1\)"),
        ({"train_y": np.r_[Y[:39], np.nan]}, "train_y in .* 1 targets .* the first at index 39 with value nan"),
        ({"test_y": np.array(["1.5"] * 20)}, "test_y in .* type <U3: the targets of a regression are numbers"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_what_is_wrong_with_a_table(path, changes, match):
    with pytest.raises(ConfigError, match=match) as error:
        data.load(save(path, **changes), "unused")
    assert "own.npz" in str(error.value)


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"x": X[:3, :4], "y": Y[:3]}, "x in .* has tables of 4 features, the model takes tables of 5 features"),
        ({"x": np.zeros((3, 8, 8)), "y": Y[:3]}, "has images of 8×8 pixels, 1 channel, the model takes tables of 5"),
        ({"x": X[:3], "y": np.array([1, 2, np.inf])}, "y in .* the first at index 2 with value inf"),
    ],
)
def test_what_is_wrong_with_a_clients_own_table(path, arrays, match):
    np.savez(path, **arrays)
    with pytest.raises(ConfigError, match=match):
        read_examples(path, (5,), 0)


def test_a_device_needs_its_own_file_only_and_not_the_runs_data_set(path, tmp_path):
    np.savez(path, x=X[:9], y=Y[:9])
    task = Task(f"npz:{tmp_path}/not-there.npz", "unused", "lr", "cpu", told=Form((5,), 0))
    examples = task.examples_from(str(path))
    arrays, _ = task.train(
        task.initial_arrays(), examples, round_=1, client=0, learning_rate=0.05, batch_size=3, seed=1, epochs=400
    )
    np.testing.assert_allclose(arrays["1.weight"], [[1.0, -2.0, 0.5, 0.0, 3.0]], atol=0.02)  # the law of the table
    _, rmse = task.evaluate(arrays, examples)
    assert rmse < 0.02


def test_the_error_is_the_root_of_the_mean_squared_error_and_the_loss_its_square(path):
    task = Task(save(path), "unused", "2nn", "cpu", seed=3)
    arrays = task.initial_arrays()
    model = task._loaded(arrays)
    with torch.no_grad():
        errors = model(torch.from_numpy(task.data.test_x)).numpy()[:, 0] - task.data.test_y
    loss, rmse = task.evaluate_test(arrays)
    assert rmse == pytest.approx(np.sqrt(np.mean(errors.astype(np.float64) ** 2)), rel=1e-6)
    assert loss == pytest.approx(rmse**2, rel=1e-6)


@pytest.mark.parametrize("y", [Y, LABELS], ids=["targets", "labels"])
def test_trained_together_tables_come_out_as_one_after_another(path, y):
    task = Task(save(path, y), "unused", "2nn", "cpu", seed=3)
    arrays = task.initial_arrays()
    how = {"round_": 1, "learning_rate": 0.01, "batch_size": 4, "seed": 1, "epochs": 2}
    clients = [(task.examples(np.arange(i * 10, i * 10 + 6 + i)), i) for i in range(3)]
    assert task.clients_at_once(4) > 3
    together = task.train_many(arrays, clients, **how)
    for (examples, i), (found, loss) in zip(clients, together, strict=True):
        alone, expected = task.train(arrays, examples, client=i, **how)
        assert loss == pytest.approx(expected, rel=1e-5)
        for name, value in alone.items():
            np.testing.assert_allclose(found[name], value, atol=1e-5)


def test_dirichlet_needs_classes():
    with pytest.raises(ConfigError, match=r"partition='dirichlet' shares out classes.*Choose partition=iid"):
        partition.make(Y.astype(np.float32), 4, kind="dirichlet", seed=1)
    parts = partition.make(Y.astype(np.float32), 4, seed=1)
    assert sorted(np.concatenate(parts).tolist()) == list(range(60))


@pytest.mark.parametrize(
    ("keys", "form", "match"),
    [
        ({"staleness": "mislabelled", "policy": "wics"}, {"regression": True, "images": False}, "swaps classes"),
        ({"staleness": "stream", "policy": "wics"}, {"regression": False, "images": False}, "turns images"),
    ],
)
def test_what_age_does_to_data_must_go_with_them(keys, form, match):
    config = RunConfig.parse(keys)
    with pytest.raises(ConfigError, match=f"staleness='{config.staleness}' {match}.*leave it out"):
        config.check_form(**form)
    config.check_form(regression=False, images=True)
