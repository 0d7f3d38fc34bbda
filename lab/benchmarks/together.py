"""Clients trained at once against one by one.

The row needs a GPU. Without one it is measured on the CPU with less data and without a limit.
"""

import torch

from aoi_fl.lab.benchmarks.base import alternate, check_alike, need, ratio_row
from aoi_fl.learning import partition, sgd
from aoi_fl.learning.task import Task

_CLIENTS, _BATCH, _RATE = 15, 50, 0.1
_ONE = "the same clients one after another"


def run(data):
    """Measure if MNIST is available."""
    need(data, "mnist")
    sgd.threads(1)
    task = Task("mnist", str(data), "cnn", "auto", seed=1)
    cuda = torch.cuda.is_available()
    images, epochs, repeats = (600, 5, 5) if cuda else (100, 1, 3)
    parts = partition.make(task.data.train_y, 100, seed=1)
    clients = [(task.examples(parts[i][:images]), i) for i in range(_CLIENTS)]
    how = {"round_": 1, "learning_rate": _RATE, "batch_size": _BATCH, "seed": 1, "epochs": epochs}
    first = task.initial_arrays()

    def alone(how=how):
        return [task.train(first, examples, client=i, **how) for examples, i in clients]

    def together(how=how):
        return list(task.train_many(first, clients, **how))

    one_by_one, batched = alternate(alone, together, repeats=repeats)
    slow = {**how, "epochs": 1, "learning_rate": _RATE / 100}  # at a higher rate, rounding alone grows to a tenth
    for (wanted, _), (found, _) in zip(alone(slow), together(slow), strict=True):
        check_alike(first, wanted, found)
    where = f"on {torch.cuda.get_device_name()}" if cuda else f"on a CPU, {images} images a client, {epochs} pass"
    note = "" if cuda else "no GPU here: nothing to judge"
    what = f"MNIST CNN, {_CLIENTS} clients batched, {where}"
    yield ratio_row(what, _ONE, 0.2 if cuda else None, batched, one_by_one, note=note)
