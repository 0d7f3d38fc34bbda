"""What a model of one's own keeps beside its arrays does not pass from one client to the next."""

from contextlib import nullcontext

import numpy as np
import pytest

from aoi_fl.learning import working
from tests.learning.test_own_model import HOW, checked, lay, task_of  # noqa: F401
from tests.refusals import refused

BODY = """
import threading

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, values, outputs):
        super().__init__()
        self.layer = nn.Linear(values, outputs)
        {state}

    def forward(self, x):
        x = x.flatten(1)
        {change}
        return self.layer(x) * (1 + {used})

def make(shape, outputs):
    return Net(shape[0] * shape[1] * shape[2], outputs)
"""
STATES = {
    "a buffer that is not persistent": (
        "self.register_buffer('mean', torch.zeros(()), persistent=False)",
        "self.mean += x.detach().mean()",
        "self.mean",
    ),
    "beside what cannot be copied": (
        "self.lock, self.calls = threading.Lock(), 0",
        "self.calls += 1",
        "0.1 * self.calls",
    ),
    "a generator": (
        "self.generator = torch.Generator().manual_seed(5)",
        "noise = torch.rand((), generator=self.generator)",
        "noise",
    ),
}


@pytest.fixture(params=STATES.values(), ids=STATES)
def task(request, lay, tmp_path):  # noqa: F811
    state, change, used = request.param
    model = lay(BODY.format(state=state, change=change, used=used))
    task = task_of(model, tmp_path)
    task.check()
    return task


def trained(task, client):
    examples = task.examples(np.arange(20 * client, 20 * client + 20))
    arrays, loss = task.train(task.initial_arrays(), examples, **HOW | {"client": client})
    return {name: array.tobytes() for name, array in arrays.items()}, loss


def test_a_client_trains_as_if_it_were_alone(task):
    alone = []
    for client in range(3):
        working.model.cache_clear()  # as in a process of its own
        alone.append(trained(task, client))
    working.model.cache_clear()
    assert [trained(task, client) for client in range(3)] == alone
    assert [trained(task, client) for client in (2, 0, 1)] == [alone[client] for client in (2, 0, 1)]


def test_an_evaluation_leaves_nothing_behind(task):
    first = trained(task, 0)
    examples = task.examples(np.arange(50))
    judged = task.evaluate(task.initial_arrays(), examples)
    assert task.evaluate(task.initial_arrays(), examples) == judged
    assert trained(task, 0) == first


@pytest.mark.parametrize(
    ("state", "body", "reason"),
    [
        (
            "pass",
            "BACK = Net(64, 64)\ndef make(shape, outputs):\n    return nn.Sequential(BACK, nn.Linear(64, outputs))\n",
            "called twice, it made tw",
        ),
        ("nn.init.constant_(self.layer.bias, float('inf'))", "", r"the parameter layer\.bias holds NaN or infinite"),
        ("self.register_buffer('mask', torch.full((3,), float('-inf')))", "", ""),
    ],
)
def test_shared_models_and_infinite_parameters_are_refused(state, body, reason, lay, tmp_path):  # noqa: F811
    with refused("model", allowed=reason) if reason else nullcontext():
        checked(lay(BODY.format(state=state, change="pass", used="0") + body), tmp_path)
