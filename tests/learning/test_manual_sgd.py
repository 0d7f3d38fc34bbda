"""Models that manual steps leave to autograd. Their results are those of autograd: test_batched.py."""

import pytest
from torch import nn
from torch.nn import functional

from aoi_fl.learning import manual_sgd, models
from aoi_fl.learning.form import Form


class OwnLinear(nn.Linear):
    pass


def changed(change):
    change(model := nn.Sequential(nn.Flatten(), nn.Linear(6, 7), nn.ReLU(), nn.Linear(7, 4)))
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
