"""Clients trained at once against one by one, and memory layouts of training on a CPU.

The first row needs a GPU. Without one it is measured on the CPU with less data and without a limit. Other load on the
machine slows two threads more than one, because each step waits for the slower thread.
"""

from functools import partial

import numpy as np
import torch

from aoi_fl.lab.benchmarks.base import alternate, need, ratio_row
from aoi_fl.learning import models, partition, sgd
from aoi_fl.learning.examples import Examples
from aoi_fl.learning.task import Task
from aoi_fl.science.draws import generator

_CLIENTS, _FEW, _BATCH, _RATE = 15, 3, 50, 0.1
_APART = 0.02  # float32 rounding relative to the change by training
_ONE = "the same clients one after another"
_USED = "one thread, one client after another"

Clients = list[tuple[Examples, int]]


def run(data):
    """Measure if MNIST is available."""
    need(data, "mnist")
    threads = torch.get_num_threads()
    try:
        yield _batched(data)
        yield from _layouts(data)
    finally:
        sgd.threads(threads)


def _batched(data):
    sgd.threads(1)
    task = Task("mnist", str(data), "cnn", "auto", seed=1)
    cuda = torch.cuda.is_available()
    images, epochs, repeats = (600, 5, 5) if cuda else (100, 1, 3)
    clients, how = _clients(task, images), {**_how(), "epochs": epochs}
    alone, together = alternate(
        lambda: _alone(task, clients, how), lambda: _together(task, clients, how), repeats=repeats
    )
    slow = {**how, "epochs": 1, "learning_rate": _RATE / 100}  # at a higher rate, rounding alone grows to a tenth
    _check(task, _alone(task, clients, slow), _together(task, clients, slow))
    where = f"on {torch.cuda.get_device_name()}" if cuda else f"on a CPU, {images} images a client, {epochs} pass"
    note = "" if cuda else "no GPU here: nothing to judge"
    what = f"MNIST CNN, {_CLIENTS} clients batched, {where}"
    return ratio_row(what, _ONE, 0.2 if cuda else None, together, alone, note=note)


def _layouts(data):
    """Compare batching, layout and threads on the CPU with the default: one thread, one by one."""
    for model, images in (("2nn", 600), ("cnn", 100)):
        task = Task("mnist", str(data), model, "cpu", seed=1)
        clients, how = _clients(task, images), {**_how(), "epochs": 1}
        ways = {"clients batched": _together}
        if model == "cnn":
            ways["channels first"] = _channels_first
        about = f"MNIST-{model.upper()} on a CPU, %d clients of {images} images, one pass: %s"
        for name, way in ways.items():
            times = alternate(partial(_alone, task, clients, how), partial(way, task, clients, how), repeats=3)
            yield ratio_row(about % (_CLIENTS, f"one thread, {name}"), _USED, None, times[1], times[0])
        # Only a few clients, because two threads take many times as long if another program uses a core.
        few = clients[:_FEW]
        times = alternate(*(partial(_threaded, threads, task, few, how) for threads in (1, 2)), repeats=2)
        yield ratio_row(about % (_FEW, "two threads"), _USED, None, times[1], times[0])
        sgd.threads(1)


def _threaded(threads, task, clients, how):
    sgd.threads(threads)
    _alone(task, clients, how)


def _how():
    return {"round_": 1, "learning_rate": _RATE, "batch_size": _BATCH, "seed": 1}


def _clients(task, images):
    parts = partition.make(task.data.train_y, 100, seed=1)
    return [(task.examples(parts[i][:images]), i) for i in range(_CLIENTS)]


def _alone(task, clients, how):
    return [task.train(task.initial_arrays(), examples, client=i, **how) for examples, i in clients]


def _together(task, clients, how):
    return list(task.train_many(task.initial_arrays(), clients, **how))


def _channels_first(task, clients, how):
    """Train with torch's default layout; on a CPU the task uses channels last."""
    model = models.build(task.model, task.form, seed=0)
    for examples, i in clients:
        models.load_arrays(model, task.initial_arrays())
        order = generator(1, 1, f"batches/{i}")
        options = {"learning_rate": _RATE, "batch_size": _BATCH, "epochs": how["epochs"]}
        sgd.fit(model, examples.x, examples.y, loss=models.loss_of(task.model), order=order, **options)
        models.to_arrays(model)


def _check(task, alone, together):
    """Raise if the two trainings differ by more than rounding, for instance by a missed batch."""
    first = task.initial_arrays()
    for (wanted, _), (found, _) in zip(alone, together, strict=True):
        way, apart = (
            np.sqrt(sum(float(np.sum((wanted[k] - other[k]) ** 2)) for k in first)) for other in (first, found)
        )
        if not apart <= _APART * way:
            raise RuntimeError(f"trained together, a client ends {apart:.3g} from where it ends alone, after {way:.3g}")
