"""Natural federations: data sets with clients of their own, read from files and split client by client.

All features are categories. A model is linear in them: a softmax regression, one row of a table for each category.
"""

import csv
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aoi_fl.lab.experiments.harness.replay import Federation
from aoi_fl.learning.tabular import numbered
from aoi_fl.science import draws
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.types import Ints

_TEST_SHARE = 0.2


@dataclass(frozen=True)
class DataSource:
    """A file of rows, each of a client; a feature has the step of its categories, or None where it has no numbers."""

    file: str
    client: str
    label: str
    features: Mapping[str, float | None]


@dataclass(frozen=True)
class DataTable:
    """Rows of all clients.

    Attributes
    ----------
    x : (rows, features) category numbers; those of different features differ
    y : (rows,) class numbers
    clients : (rows,) client numbers 0 … n−1
    names : (n,) of the clients
    categories, classes : how many there are
    """

    x: Ints
    y: Ints
    clients: Ints
    names: Sequence[str]
    categories: int
    classes: int


def read_csv(folder, source):
    """Read a gzipped CSV file. Raises ConfigError for a missing one."""
    with gzip.open(existing(folder / source.file), "rt", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names, clients = numbered([row[source.client] for row in rows])
    labels, y = numbered([row[source.label] for row in rows])
    columns, categories = [], 0
    for column, step in source.features.items():
        cells = [row[column] for row in rows]
        found, numbers = numbered(cells if step is None else [str(round(float(cell) / step)) for cell in cells])
        columns.append(numbers + categories)
        categories += len(found)
    return DataTable(np.stack(columns, axis=1), y, clients, names, categories, len(labels))


def existing(path):
    """Return a file's path; raise ConfigError for a missing file."""
    if not path.is_file():
        raise ConfigError("--data-dir", path, "a file that exists", "Give for instance --data-dir ../shared/data.")
    return path


def split_rows(table, least, most, seed):
    """Choose clients, and split the rows of each into training and test rows: a fifth, at least one, are test rows.

    Parameters
    ----------
    table : all rows
    least : rows that a client must have, at least 2
    most : number of clients, drawn by seed where more have enough rows
    seed : of the draw and the split

    Returns
    -------
    tuple
        For each chosen client its training rows; the test rows of all.
    """
    counts = np.bincount(table.clients, minlength=len(table.names))
    chosen = np.flatnonzero(counts >= least)
    keys = draws.uniforms(seed, 0, "natural-clients", len(table.names))
    chosen = np.sort(chosen[np.argsort(keys[chosen])[:most]])
    order = np.argsort(draws.uniforms(seed, 0, "natural-rows", len(table.y)))
    owners, train, test = table.clients[order], [], []
    for i in chosen.tolist():
        own = order[owners == i]
        held = max(1, round(_TEST_SHARE * len(own)))
        test.append(own[:held])
        train.append(own[held:])
    return train, np.concatenate(test)


def read_speakers(path, context):
    """Read the training and the test windows of the speakers, each with its last characters as features.

    Raises ConfigError for a missing file.
    """
    with np.load(existing(path), allow_pickle=False) as found:
        speakers, characters = found["client_names"].tolist(), len(found["characters"])
        shift = characters * np.arange(context)
        train, test = (
            DataTable(
                found[f"{part}_x"][:, -context:].astype(np.int64) + shift,
                found[f"{part}_y"].astype(np.int64),
                found[f"{part}_client"].astype(np.int64),
                speakers,
                characters * context,
                characters,
            )
            for part in ("train", "test")
        )
    return train, test


class NaturalFederation(Federation):
    """Clients of a table with a softmax regression on categories, trained by SGD.

    Parameters
    ----------
    table : rows
    train : for each client, its training rows
    seed : of the order of batches
    epochs, batch_size, rate : of local training
    """

    def __init__(self, table, train, seed, epochs, batch_size, rate):
        import torch

        from aoi_fl.learning import sgd

        sgd.threads(1)
        self.seed, self._epochs, self._batch_size, self._rate = seed, epochs, batch_size, rate
        self._parts = [(torch.from_numpy(table.x[rows]), torch.from_numpy(table.y[rows])) for rows in train]
        self.sizes = np.array([len(rows) for rows in train], np.int64)
        self._model = linear(table.categories, table.classes)

    def initial_arrays(self):
        """Return zeros."""
        return {name: np.zeros(tuple(v.shape), np.float32) for name, v in self._model.state_dict().items()}

    def train(self, arrays, client, round_):
        """Train on a client's rows."""
        from torch.nn import functional

        from aoi_fl.learning import models, sgd

        models.load_arrays(self._model, arrays)
        loss = sgd.fit(
            self._model,
            sgd.Share(*self._parts[client], draws.generator(self.seed, round_, f"batches/{client}")),
            learning_rate=self._rate,
            batch_size=self._batch_size,
            loss=functional.cross_entropy,
            epochs=self._epochs,
        )
        return models.to_arrays(self._model), loss

    def evaluate(self, arrays, x, y):
        """Return mean loss and accuracy of a model on rows."""
        import torch
        from torch.nn import functional

        from aoi_fl.learning import models, sgd

        models.load_arrays(self._model, arrays)
        return sgd.evaluate(self._model, torch.from_numpy(x), torch.from_numpy(y), functional.cross_entropy, 5000)


def linear(categories, classes):
    """Return a softmax regression: the sum of a table's rows at an example's categories, and a bias."""
    import torch

    class Linear(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.EmbeddingBag(categories, classes, mode="sum")
            self.bias = torch.nn.Parameter(torch.zeros(classes))

        def forward(self, x):
            return self.table(x) + self.bias

    return Linear()
