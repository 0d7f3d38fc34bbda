"""Local training against steps by hand."""

import numpy as np
import pytest
import torch

from aoi_fl.learning import models, sgd
from aoi_fl.learning.form import Form
from tests.refusals import refused

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def problem():
    rng = np.random.default_rng(3)
    return rng.normal(size=(11, 1, 2, 3)), rng.integers(0, 4, 11)


def logistic(x, y, w, b):
    """Loss and gradients of multinomial logistic regression, in float64."""
    flat = x.reshape(len(x), -1)
    scores = flat @ w.T + b
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    loss = np.mean(-np.log(p[np.arange(len(y)), y]))
    p[np.arange(len(y)), y] -= 1
    p /= len(y)
    return loss, p.T @ flat, p.sum(axis=0)


def by_hand(x, y, model, order, rate, batch, epochs=1000, steps=np.inf):
    w, b = (p.detach().numpy().copy() for p in model.parameters())
    losses = []
    for _ in range(epochs):
        permutation = order.permutation(len(y))
        for part in np.split(permutation, range(batch, len(y), batch)):
            if len(losses) < steps:
                loss, dw, db = logistic(x[part], y[part], w, b)
                losses.append((loss, len(part)))
                w, b = w - rate * dw, b - rate * db
    return w, b, np.average(np.array(losses)[:, 0], weights=np.array(losses)[:, 1])


@pytest.fixture
def model():
    return models.build("lr", Form((1, 2, 3), 4), seed=1).double()


@pytest.mark.parametrize(
    "how",
    [
        {"epochs": 1, "batch": 11},  # a single full step
        {"epochs": 3, "batch": 4},  # last batch of three
        {"epochs": 2, "batch": 50},  # fewer images than a batch
        {"steps": 7, "batch": 4},  # ends within the third pass
    ],
)
def test_training_equals_steps_by_hand(problem, model, how):
    x, y = problem
    options = {k: v for k, v in how.items() if k != "batch"}
    w, b, mean = by_hand(x, y, model, np.random.default_rng(5), 0.3, how["batch"], **options)
    loss = fit(model, problem, batch_size=how["batch"], **options)
    weight, bias = (p.detach().numpy() for p in model.parameters())
    np.testing.assert_allclose(weight, w, rtol=0, atol=1e-13)
    np.testing.assert_allclose(bias, b, rtol=0, atol=1e-13)
    assert loss == pytest.approx(mean, rel=1e-12)


def fit(model, problem, **how):
    share = sgd.Share(*map(torch.from_numpy, problem), np.random.default_rng(5))
    return sgd.fit(model, share, learning_rate=0.3, loss=models.loss_of("lr"), **how)


def test_an_evaluation_is_of_all_batches(problem, model):
    x, y = (np.concatenate([part] * 20) for part in problem)  # the last batch is short
    w, b = (p.detach().numpy() for p in model.parameters())
    accuracy = np.mean((x.reshape(len(y), -1) @ w.T + b).argmax(axis=1) == y)
    got = sgd.evaluate(model, torch.from_numpy(x), torch.from_numpy(y), models.loss_of("lr"))
    assert got == pytest.approx((logistic(x, y, w, b)[0], accuracy), rel=1e-12)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_a_missing_gpu_is_refused_and_auto_takes_the_cpu():
    assert sgd.device("auto").type == "cpu"
    with refused("device", "cuda"):
        sgd.device("cuda")


@pytest.mark.parametrize(
    ("n", "batch", "how", "parts"),
    [
        (9, 4, {"epochs": 2}, [4, 5, 4, 5]),
        (9, 4, {"steps": 3}, [4, 5, 4]),
        (5, 4, {"epochs": 1}, [5]),
        (10, 4, {"epochs": 1}, [4, 4, 2]),
    ],
)
def test_one_example_left_joins_the_batch_before_it_under_batchnorm(n, batch, how, parts):
    net, seen = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)), []
    net.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    how |= {"learning_rate": 0.1, "batch_size": batch, "loss": torch.nn.functional.cross_entropy}
    sgd.fit(net, sgd.Share(torch.randn(n, 2), torch.arange(n) % 3, np.random.default_rng(1)), **how)
    assert seen == parts
    with refused("batch-size", 1):
        sgd.fit(net, sgd.Share(torch.randn(1, 2), torch.arange(1), np.random.default_rng(1)), **how)
