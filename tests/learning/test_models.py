"""Models: sizes, losses, seeds, and arrays in and out."""

import numpy as np
import pytest
import torch

from aoi_fl.learning import models
from aoi_fl.learning.form import Form
from tests.refusals import refused

DIGITS, NUMBERS = Form((1, 8, 8), 10), Form((7,), 0)


@pytest.mark.parametrize(
    ("name", "shape", "parameters"),
    [
        ("2nn", (1, 28, 28), 199_210),  # McMahan et al. (2017), Section 3
        ("cnn", (1, 28, 28), 1_663_370),
        ("cnn", (3, 32, 32), 3 * 25 * 32 + 32 + 32 * 25 * 64 + 64 + 8 * 8 * 64 * 512 + 512 + 5130),
    ],
)
def test_has_the_published_number_of_parameters_and_runs(name, shape, parameters):
    model = models.build(name, Form(shape, 10), seed=1)
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert model(torch.zeros(2, *shape)).shape == (2, 10)


def test_initial_values_follow_the_seed_alone():
    before = torch.get_rng_state()
    first, again, other = (models.to_arrays(models.build("2nn", DIGITS, seed=s)) for s in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert all(np.array_equal(first[k], again[k]) for k in first)
    assert not any(np.array_equal(first[k], other[k]) for k in first)
    zeros = models.to_arrays(models.build("svm", DIGITS, seed=1, zeros=True))
    assert not any(a.any() for a in zeros.values())


def test_the_loss_of_the_svm_is_its_formula():
    scores = np.random.default_rng(1).normal(size=(7, 5))
    labels = np.array([0, 4, 2, 2, 1, 3, 0])
    margins = np.maximum(0, 1 - scores[range(7), labels][:, None] + scores).sum(axis=1) - 1  # the label's own is 1
    value = models.loss_of("svm")(torch.from_numpy(scores), torch.from_numpy(labels))
    assert float(value) == pytest.approx(margins.mean() / 5, rel=1e-12)


@pytest.mark.parametrize("name", ["lr", "2nn"])
def test_a_regression_has_one_output_and_the_squared_error(name):
    outputs = models.build(name, NUMBERS, seed=1)(torch.zeros(3, 7))
    assert outputs.shape == (3, 1)
    scores, targets = np.array([1.0, -2.0, 0.5]), np.array([0.0, 1.0, 0.5])
    loss = models.loss_of(name, regression=True)
    assert float(loss(torch.from_numpy(scores)[:, None], torch.from_numpy(targets))) == pytest.approx(10 / 3)
    each = loss(torch.from_numpy(scores)[:, None], torch.from_numpy(targets), reduction="none")
    assert each.tolist() == [1.0, 9.0, 0.0]


def test_arrays_go_out_as_copies_and_come_back():
    one, two = (models.build("cnn", DIGITS, seed=s) for s in (1, 2))
    arrays = models.to_arrays(one)
    assert list(arrays) == list(one.state_dict())
    models.load_arrays(two, arrays)
    arrays["0.weight"][:] = 7  # neither model may notice
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


def test_an_array_that_does_not_fit_is_named():
    model = models.build("lr", DIGITS, seed=1)
    arrays = models.to_arrays(model)
    with refused("array 1.weight", "of shape (10, 3)"):
        models.load_arrays(model, arrays | {"1.weight": np.zeros((10, 3), np.float32)})
    with refused("array 1.bias", "of shape none"):
        models.load_arrays(model, {"1.weight": arrays["1.weight"]})


@pytest.mark.parametrize(
    ("name", "form", "zeros", "match"),
    [
        ("mlp", DIGITS, False, "svm"),
        ("cnn", Form((1, 3, 8), 10), False, "3, 8.*at least 4×4"),
        ("cnn", DIGITS, True, "lr or svm"),
        ("python:a:b", NUMBERS, True, "lr or svm"),
        ("cnn", NUMBERS, False, r"shape \(7,\)"),
        ("svm", NUMBERS, False, "regression"),
    ],
)
def test_a_model_that_does_not_fit_the_data_is_refused(name, form, zeros, match):
    with refused("model", allowed=match):
        models.build(name, form, seed=1, zeros=zeros)
