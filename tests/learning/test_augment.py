"""Crops and flips against the same image by image, and less exact products against exact ones."""

import numpy as np
import pytest
import torch

from aoi_fl.config.run import RunConfig
from aoi_fl.learning.augment import MARGIN, cropped_and_flipped
from aoi_fl.learning.task import Task


def sequential(images, draws):
    n, _, height, width = images.shape
    down, right, flips = draws.integers(0, 2 * MARGIN + 1, n), draws.integers(0, 2 * MARGIN + 1, n), draws.random(n)
    found = np.zeros_like(images)
    for i in range(n):
        for row in range(height):
            for column in range(width):
                from_row = row + down[i] - MARGIN
                from_column = (width - 1 - column if flips[i] < 0.5 else column) + right[i] - MARGIN
                if 0 <= from_row < height and 0 <= from_column < width:
                    found[i, :, row, column] = images[i, :, from_row, from_column]
    return found


def test_crops_and_flips_are_those_of_image_by_image():
    images = np.random.default_rng(1).normal(size=(40, 3, 6, 5)).astype(np.float32)
    found = cropped_and_flipped(torch.from_numpy(images), np.random.default_rng(2)).numpy()
    assert np.array_equal(found, sequential(images, np.random.default_rng(2))) and found.flags.c_contiguous


def flat(arrays):
    return np.concatenate([array.ravel() for array in arrays.values()])


def trained(**how):
    task = Task("digits", "data", "cnn", "cpu", seed=1, **how)
    examples = task.examples(np.arange(200))
    fixed = {"learning_rate": 0.05, "batch_size": 20, "seed": 1, "epochs": 3}
    arrays, loss = task.train(task.initial_arrays(), examples, round_=1, client=4, **fixed)
    return flat(arrays), loss


def test_less_exact_products_train_nearly_the_same():
    (exact, loss), (low, its) = trained(), trained(precision="bfloat16")
    first = flat(Task("digits", "data", "cnn", "cpu", seed=1).initial_arrays())
    assert low.dtype == np.float32 and not np.array_equal(exact, low)
    assert np.linalg.norm(low - exact) < 0.1 * np.linalg.norm(exact - first) and its == pytest.approx(loss, rel=0.02)


def test_changed_images_are_drawn_by_seed_round_and_client():
    (one, loss), (again, its) = trained(augment="crop-flip"), trained(augment="crop-flip")
    assert np.array_equal(one, again) and loss == its
    assert not np.array_equal(one, trained()[0]) and loss > trained()[1]  # moved digits are harder


def test_a_task_is_of_the_run_keys():
    keys = {"augment": "crop-flip", "precision": "bfloat16", "model": "svm:zeros", "seed": "5", "client-column": "c"}
    keys |= {"dataset": "csv:x.csv", "target": "y", "drop": "a", "missing": "median", "device": "cpu"}
    named = {"model": "svm", "zeros": True, "client": "c", "seed": 5, "data_dir": "elsewhere"}
    task = Task.of(RunConfig.parse(keys), data_dir="elsewhere")
    assert task == Task(**{k: v for k, v in keys.items() if k != "client-column"} | named)


@pytest.mark.parametrize(("precision", "apart"), [("float32", 1e-4), ("bfloat16", 0.05)])
def test_clients_train_together_as_alone_on_crops(precision, apart):
    task = Task("digits", "data", "cnn", "cpu", seed=1, augment="crop-flip", precision=precision)
    clients = [(task.examples(np.arange(40 * i, 40 * i + size)), i) for i, size in enumerate([40, 7, 23])]
    how = {"round_": 2, "learning_rate": 0.05, "batch_size": 10, "seed": 1, "epochs": 2}
    first = task.initial_arrays()
    many = list(task.train_many(first, clients, **how))
    for (examples, number), (found, loss) in zip(clients, many, strict=True):
        wanted, its = task.train(first, examples, client=number, **how)
        way, off = (np.sqrt(sum(np.sum((wanted[k] - of[k]) ** 2) for k in first)) for of in (first, found))
        assert off < apart * way and loss == pytest.approx(its, rel=0.02)
