"""Warnings about data that are seldom meant, and remedies that do what they say."""

import re

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from aoi_fl.learning.cautions import cautions
from aoi_fl.learning.form import Dataset

RNG = np.random.default_rng(3)


def found(x, y):
    """Return the cautions about a data set."""
    x, y = np.asarray(x, np.float32), np.asarray(y)
    return cautions(Dataset("npz:own.npz", x, y, x, y, 0 if y.dtype.kind == "f" else int(y.max()) + 1))


def scaled(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


def columns(caution):
    return [int(number) for number in re.findall(r"column (\d+)", caution)]


@pytest.mark.parametrize(
    ("column", "named"),
    [
        (np.full(60, 300.0), True),  # Kelvin, say
        (RNG.normal(size=60) * 1e-5, True),
        (np.r_[1e30, np.zeros(59)], True),
        (RNG.integers(0, 2, 60), False),
        (np.zeros(60), False),
        (np.r_[1.0, np.zeros(59)], False),
    ],
)
def test_a_column_by_its_size(column, named):
    x = np.column_stack([RNG.normal(size=60), column])
    assert [columns(c) for c in found(x, np.arange(60) % 3)] == ([[1]] if named else [])


def test_pixels_that_are_not_scaled():
    images = RNG.random((20, 1, 4, 4))
    assert len(found(255 * images, np.arange(20) % 2)) == 1 and found(images, np.arange(20) % 2) == []


@pytest.mark.parametrize("labels", [[1, -1], [0, 2, 7]])
def test_whole_floats_as_labels(labels):
    (caution,) = found(RNG.normal(size=(60, 2)), np.float32(labels)[np.arange(60) % len(labels)])
    assert "train_y" in caution


def test_targets_of_a_real_regression_are_scaled_or_named():
    x, y = load_diabetes(return_X_y=True)
    x = scaled(x)
    assert ["train_y.std()" in c for c in found(x, y + 0.5)] == [True]
    assert found(x, scaled(y)) == []
    assert found(x[:60], np.arange(60) / 10) == []


@pytest.mark.parametrize(("y", "missing"), [([0, 1, 3], "2"), ([0, 9], "1, 2, 3, 4, 5 and 3 more")])
def test_labels_that_skip_a_class(y, missing):
    labels = np.array(y)[np.arange(60) % len(y)]
    (caution,) = found(RNG.normal(size=(60, 2)), labels)
    assert f"class {missing} among" in caution
    _classes, again = np.unique(labels, return_inverse=True)  # the remedy
    assert found(RNG.normal(size=(60, 2)), again) == []
