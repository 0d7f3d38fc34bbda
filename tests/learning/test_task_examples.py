"""The task's examples: relabelled, a client's own."""

import numpy as np
import pytest

from aoi_fl.learning import data
from aoi_fl.learning.form import Form
from aoi_fl.learning.task import Task
from tests.refusals import refused

INDICES = np.array([5, 0, 1499, 5])


@pytest.fixture(scope="module")
def task():
    return Task("digits", "data", "lr", "cpu", seed=3)


def test_examples_are_the_images_in_the_requested_order(task):
    found = task.examples(INDICES)
    np.testing.assert_array_equal(found.x.numpy(), task.data.train_x[INDICES])
    assert found.y.tolist() == task.data.train_y[INDICES].tolist()
    assert len(found) == 4
    assert task.examples(INDICES, labels=np.array([9, 8, 7, 6])).y.tolist() == [9, 8, 7, 6]
    assert task.examples(INDICES).y.tolist() == found.y.tolist()  # the data set itself is as it was


@pytest.mark.parametrize("indices", [[], [0, 1500], [-1]], ids=str)
def test_places_that_do_not_fit_are_refused(indices, task):
    with refused("partition"):
        task.examples(np.array(indices, int))


def test_own_examples_are_standardised_as_the_data_set_is(tmp_path):
    pixels = np.random.default_rng(2).integers(0, 256, (5, 28, 28), dtype=np.uint8)
    np.savez(tmp_path / "own.npz", x=pixels, y=np.zeros(5, int))
    x, y = data.load_examples("mnist", Form((1, 28, 28), 10), tmp_path / "own.npz")
    np.testing.assert_allclose(x[:, 0], (pixels / 255 - 0.1307) / 0.3081, rtol=1e-5, atol=1e-6)
    assert x.dtype == np.float32 and y.dtype == np.int64
