"""An npz file of one's own: images, tables, labels and targets; each fault is named."""

from unittest.mock import ANY

import numpy as np
import pytest

from aoi_fl.config.run import RunConfig
from aoi_fl.learning import data, npz
from aoi_fl.learning.form import Form
from aoi_fl.learning.task import Task
from tests.refusals import refused

RNG = np.random.default_rng(7)
X = RNG.normal(size=(60, 5))
Y = X @ np.array([1.0, -2.0, 0.5, 0.0, 3.0]) + 4
PIXELS = RNG.integers(0, 256, (6, 4, 5, 3), np.uint8)
TABLE = {"train_x": X[:40], "train_y": Y[:40], "test_x": X[40:], "test_y": Y[40:]}
IMAGES = {
    "train_x": PIXELS[..., 0],
    "train_y": np.array([0, 1, 2, 0, 1, 2]),
    "test_x": PIXELS[:2, ..., 0],
    "test_y": np.array([0, 2]),
}


def save(path, arrays):
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    data._load.cache_clear()
    return f"npz:{path}"


def loaded(path, arrays):
    return data.load(save(path, arrays), "unused")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "own.npz"


def test_a_table_with_labels_and_one_with_targets(path):
    labels = np.arange(60) % 3
    labelled = loaded(path, TABLE | {"train_y": labels[:40], "test_y": labels[40:]})
    assert labelled.form == Form((5,), 3) and labelled.train_y.dtype == np.int64
    assert (labelled.form.outputs, labelled.form.metric) == (3, "accuracy")
    targets = loaded(path, TABLE)
    assert targets.form == Form((5,), 0) and targets.train_y.dtype == np.float32
    assert (targets.form.outputs, targets.form.metric) == (1, "rmse")
    np.testing.assert_array_equal(targets.train_x, X[:40].astype(np.float32))
    np.testing.assert_array_equal(targets.test_y, Y[40:].astype(np.float32))


@pytest.mark.parametrize(
    ("x", "wanted"),
    [
        (PIXELS[..., 0], PIXELS[:, None, ..., 0] / 255),
        (PIXELS[..., :1], PIXELS[:, None, ..., 0] / 255),
        (PIXELS, PIXELS.transpose(0, 3, 1, 2) / 255),
        (PIXELS[..., 0] / 16, PIXELS[:, None, ..., 0] / 16),
    ],
)
def test_images_are_read_in_every_accepted_form(path, x, wanted):
    read = loaded(path, IMAGES | {"train_x": x, "test_x": x[:2]})
    np.testing.assert_allclose(read.train_x, wanted, rtol=1e-6)
    assert read.shape == wanted.shape[1:] and read.classes == 3 and read.train_y.dtype == np.int64
    np.savez(path, x=x, y=np.uint8([2] * 6))
    own, y = npz.read_examples(path, read.shape, 3)
    assert y.tolist() == [2] * 6 and y.dtype == np.int64
    np.testing.assert_allclose(own, wanted, rtol=1e-6)
    assert npz.count_examples(path) == 6


def changed(array, at, value):
    array = array.astype(float)
    array[at] = value
    return array


@pytest.mark.parametrize(
    ("arrays", "name", "array", "value", "allowed"),
    [
        (IMAGES, "test_y", None, "test_x, train_x, train_y", ANY),
        (IMAGES, "train_x", PIXELS.transpose(0, 3, 1, 2), "of shape (6, 3, 4, 5) and type uint8", ANY),
        (IMAGES, "train_x", changed(PIXELS[..., 0], (3, 1, 1), np.nan), ANY, "finite; 1 .*first at 3, 0, 1, 1"),
        (IMAGES, "train_x", np.array([None] * 6), None, "it holds Python objects"),
        (IMAGES, "test_x", np.zeros((2, 4, 6), np.uint8), "of examples of shape (1, 4, 6)", ANY),
        (IMAGES, "train_y", np.arange(5), "of shape (5,) and type int64", ANY),
        (IMAGES, "test_y", np.array([0, 1.5]), "of shape (2,) and type float64", ANY),
        (IMAGES, "train_y", np.array([0, 1, 2, 0, 1, -1]), -1, ANY),
        (IMAGES, "test_y", np.array([0, 3]), 3, ANY),
        (IMAGES, "train_y", np.array([0, 1, 2, 0, 1, 10**9]), "6 labels, the largest 1000000000", ANY),
        (IMAGES, "train_y", np.zeros(6, int), "6 labels, the largest 0", ANY),
        (TABLE, "train_x", changed(X[:40], (0, 4), 1e300), 1e300, "first at 0, 4"),
        (TABLE, "train_x", X[:40].astype(int), "of shape (40, 5) and type int64", ANY),
        (TABLE, "train_x", X[:40, :0], "of shape (40, 0) and type float64", ANY),
        (TABLE, "train_y", changed(Y[:40], 39, np.inf), np.inf, "first at 39"),
        (TABLE, "test_y", np.array(["1.5"] * 20), "of shape (20,) and type <U3", ANY),
    ],
)
def test_a_fault_of_an_array_is_named(path, arrays, name, array, value, allowed):
    with refused("own.npz", value, allowed) as error:
        loaded(path, arrays | {name: array})
    assert array is None or name in error.value.key


@pytest.mark.parametrize(
    ("arrays", "form", "key", "value"),
    [
        ({"x": PIXELS, "y": np.zeros(6, int)}, ((1, 4, 5), 3), "x in", "of examples of shape (3, 4, 5)"),
        ({"x": PIXELS, "y": np.array([0, 3] * 3)}, ((3, 4, 5), 3), "y in", 3),
    ],
)
def test_a_fault_of_a_clients_own_file_is_named(path, arrays, form, key, value):
    np.savez(path, **arrays)
    with refused(f"{key} {path}", value):
        npz.read_examples(path, *form)


def test_a_device_needs_only_its_own_file(path, tmp_path):
    np.savez(path, x=X[:9], y=Y[:9])
    task = Task(f"npz:{tmp_path}/not-there.npz", "unused", "lr", "cpu", told=Form((5,), 0))
    examples = task.examples_from(str(path))
    how = {"round_": 1, "client": 0, "learning_rate": 0.05, "batch_size": 3, "seed": 1, "epochs": 400}
    arrays, _ = task.train(task.initial_arrays(), examples, **how)
    np.testing.assert_allclose(arrays["1.weight"], [[1.0, -2.0, 0.5, 0.0, 3.0]], atol=0.02)  # the law of the table
    _, rmse = task.evaluate(arrays, examples)
    assert rmse < 0.02


@pytest.mark.parametrize(
    ("keys", "regression"),
    [({"mislabel-rate": 0.05, "policy": "wics"}, True), ({"augment": "crop-flip", "model": "cnn"}, False)],
)
def test_keys_that_do_not_fit_a_table_are_refused(keys, regression):
    config, key = RunConfig.parse(keys), next(iter(keys))
    with refused(key, keys[key]):
        config.check_form(regression=regression, images=False)
    config.check_form(regression=False, images=True)
