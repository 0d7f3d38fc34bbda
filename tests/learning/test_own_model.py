"""A model of one's own: found, made, refused with a reason before anything starts, and trained as ours are."""

import sys
from contextlib import nullcontext
from unittest.mock import ANY

import numpy as np
import pytest
import torch

from aoi_fl.learning import models, own_model, working
from aoi_fl.learning.form import Form
from aoi_fl.learning.task import Task
from aoi_fl.protocol.own_code import source_digest
from tests.refusals import refused

FORM = Form((1, 8, 8), 10)
HOW = {"round_": 1, "client": 0, "learning_rate": 0.1, "batch_size": 10, "seed": 1, "epochs": 2}
GOOD = """
from torch import nn

def make(shape, outputs):
    return nn.Sequential(
        nn.Conv2d(shape[0], 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5), nn.Linear(144, outputs)
    )
"""


@pytest.fixture
def lay(tmp_path):
    """Return a function that lays a module into a folder and names its model."""

    def write(source, module="mine", function="make"):
        path = tmp_path / f"{module.replace('.', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
        return f"python:{module}:{function}"

    yield write
    working.model.cache_clear()


def task_of(model, folder, **how):
    return Task("digits", "unused", model, "cpu", seed=3, model_dir=str(folder), **how)


def checked(model, folder, form=FORM):
    own_model.check(model, str(folder), form, torch.ones(2, *form.shape), seed=1)


def test_its_weights_are_a_function_of_the_seed(lay, tmp_path):
    model = lay(GOOD)
    before, path = torch.get_rng_state(), list(sys.path)
    checked(model, tmp_path)
    first, again, other = (
        models.to_arrays(models.build(model, FORM, seed=seed, folder=str(tmp_path))) for seed in (1, 1, 2)
    )
    assert torch.equal(before, torch.get_rng_state()) and sys.path == path
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["5.weight"], other["5.weight"])


def test_an_own_model_may_import_its_package(lay, tmp_path):
    lay("WIDTH = 7", "parts")
    source = """def make(shape, outputs):
        from parts import WIDTH
        from torch import nn
        return nn.Sequential(nn.Linear(*shape, WIDTH), nn.Linear(WIDTH, outputs))
    """
    model = lay(source, "zoo.small")
    checked(model, tmp_path, Form((5,), 0))
    assert len(source_digest("model", model, str(tmp_path))) == 64


HEAD = "import numpy as np, torch\nfrom torch import nn\ndef make(shape, outputs):\n    "
LINEAR = "nn.Sequential(nn.Flatten(), nn.Linear(64, 10))"
UNSEEDED = """m = nn.Linear(64, 10); m.weight.data[:] = torch.from_numpy(np.random.rand(10, 64))
    return nn.Sequential(nn.Flatten(), m)
"""
DETACHED = """class Net(nn.Module):
        def __init__(self):
            super().__init__(); self.w = nn.Parameter(torch.ones(1))
        def forward(self, x):
            return torch.zeros(len(x), 10) + self.w.detach()
    return Net()
"""
SPARE = f"""m = {LINEAR}
    m.spare = nn.ParameterList([torch.ones(2)])
    m.forward = lambda x: m[1](m[0](x))
    return m
"""


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ("raise SystemExit(3)", r"called with \(1, 8, 8\) and 10, raised SystemExit: 3"),
        ("return {'not': 'a module'}", r"returned \{'not': 'a module'\}"),
        ("return nn.Linear", "returned the class <class 'torch.nn"),
        ("return nn.Linear(64, 10)", r"given 1 of the examples in evaluation, it raised RuntimeError: "),
        ("return nn.Sequential(nn.Flatten(), nn.Linear(64, 7))", r"it gives shape \(1, 7\), and \(1, 10\) is needed"),
        ("return nn.Sequential(nn.Flatten(), nn.LSTM(64, 10))", r"it gives \(tensor"),
        (f"return {LINEAR}.double()", r"the parameter 1\.weight has type float64"),
        (f"return {LINEAR}.requires_grad_(False)", "has no parameter to train"),
        (SPARE, r"the parameter spare\.0 has no part in the outputs"),
        (UNSEEDED, r"two different 1\.weight"),
        (DETACHED, "no gradient leads from its outputs to its parameters"),
    ],
)
def test_a_fault_of_a_model_is_refused(lay, tmp_path, body, match):
    model = lay(f"{HEAD}{body}\n")
    with refused("model", "python:mine:make", match) as error:
        checked(model, tmp_path)
    assert error.value.remedy and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("source", "module", "model", "match"),
    [
        (GOOD, "mine", "python:yours:make", "module yours is"),
        (GOOD, "mine", "python:mine:build", r"mine\.py has no function build"),
        ("import nowhere_to_be_found", "mine", "python:mine:make", "imported: ModuleNotFoundError: .*nowhere"),
        (GOOD, "json", "python:json:make", ANY),  # a name that Python has given away
    ],
)
def test_a_fault_of_a_models_name_is_refused(lay, tmp_path, source, module, model, match):
    lay(source, module)
    with refused("model", model, match):
        checked(model, tmp_path)


def test_training_is_a_function_of_its_arguments(lay, tmp_path):
    task = task_of(lay(GOOD), tmp_path)
    start, examples = task.initial_arrays(), task.examples(np.arange(30))
    kept, before = {name: array.copy() for name, array in start.items()}, torch.get_rng_state()
    changes = ({}, {}, {"round_": 2}, {"client": 1}, {"seed": 2})
    first, again, *others = (task.train(start, examples, **HOW | change)[0] for change in changes)
    assert torch.equal(before, torch.get_rng_state())
    assert all(np.array_equal(first[name], again[name]) and np.array_equal(start[name], kept[name]) for name in first)
    assert not any(np.array_equal(first["5.weight"], other["5.weight"]) for other in others)
    assert first["1.num_batches_tracked"] == 6 and first["1.running_mean"].any()


def test_a_client_with_another_file_than_the_servers_says_so(lay, tmp_path):
    task = task_of(lay(GOOD), tmp_path, source="0" * 64)
    with refused("model", "python:mine:make"):
        task.train({}, task.examples(np.arange(3)), **HOW)


def test_a_model_that_cannot_be_stacked_trains_alone(lay, tmp_path, caplog):
    task = task_of(lay(GOOD), tmp_path)
    assert task.clients_at_once(10) == 1
    assert "trained one client after another" in caplog.text
    plain = f"from torch import nn\ndef make(shape, outputs):\n    return {LINEAR}"
    task = task_of(lay(plain, "plain"), tmp_path)
    assert task.clients_at_once(10) > 1


TRAVELS = {
    "nn.Sequential(nn.Flatten(), nn.LazyLinear(outputs))": "LazyLinear",
    "Stateful(outputs)": "_extra_state",
    "Own(outputs, grows=True)": "is float32 (3,) after one step",
    "Own(outputs, comes=True)": "late was not there",
    "Own(outputs, buffer=torch.ones(2, dtype=torch.bfloat16))": "no array",
    "Own(outputs)": "",
}
OWN = """
import torch
from torch import nn

class Own(nn.Module):
    def __init__(self, outputs, grows=False, comes=False, buffer=None):
        super().__init__()
        self.layer, self.grows, self.comes = nn.Linear(64, outputs), grows, comes
        self.register_buffer("mine", torch.ones(2) if buffer is None else buffer)

    def forward(self, x):
        if self.training and self.grows:
            self.mine = torch.cat([self.mine, self.mine[:1]])
        if self.training and self.comes:
            self.register_buffer("late", torch.ones(1))
        return self.layer(x.flatten(1))

class Stateful(Own):
    def get_extra_state(self):
        return 3

    def set_extra_state(self, state):
        pass

def make(shape, outputs):
    return WHAT
"""


@pytest.mark.parametrize(("source", "words"), TRAVELS.items())
def test_a_state_that_cannot_travel_is_named(lay, tmp_path, source, words):
    model = lay(OWN.replace("WHAT", source))
    with refused("model") if words else nullcontext() as found:
        checked(model, tmp_path)
    assert not words or (words in str(found.value) and found.value.remedy)
