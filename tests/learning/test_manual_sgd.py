"""Manual steps against autograd's, and the models that are left to it."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from aoi_fl.learning import manual_sgd, models, sgd
from aoi_fl.learning.form import Form

pytestmark = pytest.mark.usefixtures("one_thread")


def layers(outputs=4, last=()):
    torch.manual_seed(1)
    parts = [nn.Flatten(), nn.Linear(6, 7), nn.ReLU(), nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, outputs), *last]
    return nn.Sequential(*parts).double()


def squared(outputs, targets, reduction="mean"):
    return functional.mse_loss(outputs.reshape(targets.shape), targets, reduction=reduction)


@pytest.mark.parametrize("loss", [functional.cross_entropy, functional.multi_margin_loss, squared])
def test_manual_training_equals_autograd(loss):
    rng = np.random.default_rng(3)
    x = torch.from_numpy(rng.normal(size=(11, 1, 2, 3)))
    y = torch.from_numpy(rng.normal(size=11) if loss is squared else rng.integers(0, 4, 11))
    outputs = 1 if loss is squared else 4
    # A layer that does nothing is one that is left to autograd.
    plain, left = layers(outputs), layers(outputs, last=[nn.Identity()])
    assert manual_sgd.step_of(plain, loss, 0.1) is not None and manual_sgd.step_of(left, loss, 0.1) is None
    how = {"learning_rate": 0.1, "batch_size": 4, "loss": loss, "epochs": 3}
    found = [
        sgd.fit(model, sgd.Share(x, y, *(np.random.default_rng(seed) for seed in (5, 6))), **how)
        for model in (plain, left)
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    begun = layers(outputs)
    for own, theirs, first in zip(plain.parameters(), left.parameters(), begun.parameters(), strict=True):
        assert not torch.equal(own, first)
        torch.testing.assert_close(own, theirs, rtol=0, atol=1e-13)
        assert own.grad is None and own.requires_grad


class OwnLinear(nn.Linear):
    pass


def changed(change):
    change(model := layers())
    return model


def tied():
    shared = nn.Linear(5, 5)
    return nn.Sequential(nn.Flatten(), shared, nn.ReLU(), shared)


@pytest.mark.parametrize(
    "model",
    [
        changed(lambda model: model[3].register_forward_hook(lambda *_: None)),
        changed(lambda model: model[1].weight.register_hook(lambda gradient: gradient.clamp(-1, 1))),
        changed(lambda model: model[1].bias.requires_grad_(False)),
        tied(),
        nn.Sequential(nn.Flatten(2), nn.Linear(6, 4)),
        nn.Sequential(nn.Flatten(), nn.Linear(6, 4, bias=False)),
        nn.Sequential(nn.Flatten(), OwnLinear(6, 4)),
        nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.ReLU()),
    ],
)
def test_others_are_left_to_autograd(model):
    assert manual_sgd.step_of(model, functional.cross_entropy, 0.1) is None
    for name in ("lr", "svm", "2nn"):
        ours = models.build(name, Form((1, 8, 8), 10), seed=1)
        assert manual_sgd.step_of(ours, models.loss_of(name), 0.1) is not None
