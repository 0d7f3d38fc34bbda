"""Local training against steps written out by hand; the task object on the real digits."""

import numpy as np
import pytest
import torch

from aoi_fl.learning import models, sgd
from aoi_fl.learning.form import Form
from aoi_fl.learning.task import Task
from tests.refusals import refused

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def problem():
    rng = np.random.default_rng(3)
    return rng.normal(size=(11, 1, 2, 3)), rng.integers(0, 4, 11)


def logistic(x, y, w, b, weights=None):
    """Loss and gradients of multinomial logistic regression, in float64."""
    flat = x.reshape(len(x), -1)
    scores = flat @ w.T + b
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    f = np.ones(len(x)) if weights is None else weights
    loss = np.mean(-f * np.log(p[np.arange(len(y)), y]))
    p[np.arange(len(y)), y] -= 1
    p *= f[:, None] / len(y)
    return loss, p.T @ flat, p.sum(axis=0)


def by_hand(x, y, model, order, rate, batch, epochs=None, steps=None, weights=None):
    w, b = (p.detach().numpy().copy() for p in model.parameters())
    losses, done = [], 0
    f = np.ones(len(y)) if weights is None else np.asarray(weights) / np.mean(weights)
    for _ in range(epochs or 1000):
        permutation = order.permutation(len(y))
        for start in range(0, len(y), batch):
            if steps is not None and done == steps:
                return w, b, np.average(*np.array(losses).T.tolist()[:1], weights=np.array(losses).T[1])
            part = permutation[start : start + batch]
            loss, dw, db = logistic(x[part], y[part], w, b, f[part])
            losses.append((loss, len(part)))
            w, b, done = w - rate * dw, b - rate * db, done + 1
    return w, b, np.average(np.array(losses)[:, 0], weights=np.array(losses)[:, 1])


@pytest.mark.parametrize(
    "how",
    [
        {"epochs": 1, "batch": 11},  # a single full step
        {"epochs": 3, "batch": 4},  # last batch of three
        {"epochs": 2, "batch": 50},  # fewer images than a batch
        {"steps": 7, "batch": 4},  # ends within the third pass
        {"steps": 2, "batch": 4},
        {"epochs": 3, "batch": 4, "weights": np.linspace(0, 3, 11)},
    ],
)
def test_equals_steps_taken_by_hand(problem, how):
    x, y = problem
    model = models.build("lr", Form((1, 2, 3), 4), seed=1).double()
    options = {k: v for k, v in how.items() if k != "batch"}
    w, b, mean = by_hand(x, y, model, np.random.default_rng(5), 0.3, how["batch"], **options)
    loss = sgd.fit(
        model,
        torch.from_numpy(x),
        torch.from_numpy(y),
        learning_rate=0.3,
        batch_size=how["batch"],
        loss=models.loss_of("lr"),
        order=np.random.default_rng(5),
        **options,
    )
    weight, bias = (p.detach().numpy() for p in model.parameters())
    np.testing.assert_allclose(weight, w, rtol=0, atol=1e-13)
    np.testing.assert_allclose(bias, b, rtol=0, atol=1e-13)
    assert loss == pytest.approx(mean, rel=1e-12)


def test_evaluation_is_the_same_in_any_batches(problem):
    x, y = problem
    model = models.build("lr", Form((1, 2, 3), 4), seed=1).double()
    w, b = (p.detach().numpy() for p in model.parameters())
    accuracy = np.mean((x.reshape(11, -1) @ w.T + b).argmax(axis=1) == y)
    for batch in (1, 4, 11, 1000):
        got = sgd.evaluate(model, torch.from_numpy(x), torch.from_numpy(y), models.loss_of("lr"), batch)
        assert got == pytest.approx((logistic(x, y, w, b)[0], accuracy), rel=1e-12)


@pytest.mark.parametrize("weights", [np.ones(3), -np.ones(11), np.zeros(11), np.full(11, np.nan)])
def test_refuses_weights_that_make_no_sense(problem, weights):
    x, y = (torch.from_numpy(a) for a in problem)
    with refused("weights of images"):
        sgd.fit(
            models.build("lr", Form((1, 2, 3), 4), seed=1).double(),
            x,
            y,
            learning_rate=0.1,
            batch_size=4,
            loss=models.loss_of("lr"),
            order=np.random.default_rng(1),
            epochs=1,
            weights=weights,
        )


def test_device():
    assert sgd.device("cpu").type == "cpu"
    assert sgd.device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_cuda_that_is_not_there():
    with refused("device", "cuda"):
        sgd.device("cuda")


@pytest.fixture
def task():
    return Task("digits", "unused", "2nn", device="cpu", seed=4)


HOW = {"round_": 2, "client": 3, "learning_rate": 0.5, "batch_size": 10, "epochs": 5, "seed": 1}


def same(one, two):
    return list(one) == list(two) and all(np.array_equal(one[k], two[k]) for k in one)


def test_training_is_a_function_of_its_arguments(task):
    start, indices = task.initial_arrays(), np.arange(40, 57)
    kept = {k: v.copy() for k, v in start.items()}
    examples = task.examples(indices)
    first, loss = task.train(start, examples, **HOW)
    assert len(examples) == 17
    assert same(start, kept)
    task.train(start, task.examples(np.arange(5)), **HOW | {"client": 9})  # another client in between leaves no trace
    task.evaluate_test(start)
    again, loss_again = task.train(start, examples, **HOW)
    assert same(first, again)
    assert loss == loss_again
    for change in ({"round_": 3}, {"client": 4}, {"seed": 2}):
        assert not same(first, task.train(start, examples, **HOW | change)[0])
