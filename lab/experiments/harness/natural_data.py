"""Natural federations: data sets with clients of their own, read from files and split client by client.

All features are categories. A model is linear in them: a softmax regression, one row of a table for each category.
"""

import csv
import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aoi_fl.lab.experiments.harness.replay import Arrays, Federation
from aoi_fl.learning.tabular import numbered
from aoi_fl.science import draws
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.types import Ints

_TEST_SHARE = 0.2


@dataclass(frozen=True)
class DataSource:
    """A file of rows, each of a client (``what``); a feature has a function from the cell to its category."""

    file: str
    client: str
    label: str
    features: Mapping[str, Callable[[str], Any]]
    what: str


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


def read_csv(folder: Path, source: DataSource) -> DataTable:
    """Read a gzipped CSV file.

    Raises ConfigError if the file or a column is missing, or the file or a cell cannot be read.
    """
    path = folder / source.file
    wanted = (source.client, source.label, *source.features)
    try:
        with gzip.open(path, "rt", newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            check_columns(path, wanted, rows.fieldnames or ())
            cells = [[row[column] for column in wanted] for row in rows]
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise _unreadable(path, error) from error
    names, clients = numbered([row[0] for row in cells])
    labels, y = numbered([row[1] for row in cells])
    columns: list[Ints] = []
    categories = 0
    for place, (column, category) in enumerate(source.features.items(), 2):
        try:
            found, numbers = numbered([str(category(row[place])) for row in cells])
        except ValueError as error:
            raise ConfigError(
                f"{path}, column {column}", None, f"readable ({error})", "Correct the cell, or remove its row."
            ) from error
        columns.append(numbers + categories)
        categories += len(found)
    return DataTable(np.stack(columns, axis=1), y, clients, names, categories, len(labels))


def _unreadable(path: Path, error: Exception) -> ConfigError:
    if isinstance(error, FileNotFoundError):
        remedy = "Give for instance --data-dir ../shared/data."
        return ConfigError("--data-dir", path, "a folder that holds `natural`", remedy)
    return ConfigError("--data-dir", path, f"readable ({error})", "Replace it with an intact copy.")


def check_columns(path: Path, wanted: Sequence[str], there: Sequence[str]) -> None:
    """Raise ConfigError with the first column that a file lacks."""
    for column in wanted:
        if column not in there:
            allowed = f"complete, and {column} is missing"
            remedy = "Use the original file, or name the column in the source."
            raise ConfigError(f"columns of {path}", ", ".join(there) or "none", allowed, remedy)


def split_rows(table: DataTable, least: int, most: int, seed: int, what: str) -> tuple[list[Ints], Ints, list[str]]:
    """Choose clients, and split the rows of each into training and test rows: a fifth, at least one, are test rows.

    Parameters
    ----------
    table : all rows
    least : rows that a client must have
    most : number of clients, drawn by seed where more have enough rows
    seed : of the draw and the split
    what : the clients, for messages

    Returns
    -------
    tuple
        For each chosen client its training rows; the test rows of all; the clients' names.

    Raises ConfigError if ``least`` leaves a client without a training or test row, or no client has enough rows.
    """
    counts = np.bincount(table.clients, minlength=len(table.names))
    chosen = np.flatnonzero(counts >= least)
    if not len(chosen):
        raise ConfigError(
            "least-rows", least, f"at most {counts.max()}, the most rows of a client ({what})", "Lower it."
        )
    alone = chosen[counts[chosen] < 2]
    if len(alone):
        names = ", ".join(table.names[i] for i in alone[:3])
        raise ConfigError(
            "least-rows",
            least,
            f"at least 2, for a test example of each client; {len(alone)} clients have one row ({what}: {names}, …)",
            "Set it to 2 or more.",
        )
    keys = draws.uniforms(seed, 0, "natural-clients", len(table.names))
    chosen = np.sort(chosen[np.argsort(keys[chosen])[:most]])
    order = np.argsort(draws.uniforms(seed, 0, "natural-rows", len(table.y)))
    by_client = order[np.argsort(table.clients[order], kind="stable")]
    ends = np.cumsum(counts)
    train, test = [], []
    for i in chosen.tolist():
        own = by_client[ends[i] - counts[i] : ends[i]]
        held = max(1, round(_TEST_SHARE * len(own)))
        test.append(own[:held])
        train.append(own[held:])
    return train, np.concatenate(test), [table.names[i] for i in chosen]


def read_speakers(path: Path, context: int) -> tuple[DataTable, DataTable]:
    """Read the training and the test windows of the speakers, each with its last characters as features.

    Raises ConfigError if the file is missing or damaged, lacks an array, or a speaker has no test example.
    """
    names = ("train_x", "train_y", "train_client", "test_x", "test_y", "test_client", "client_names", "characters")
    try:
        with np.load(path, allow_pickle=False) as file:
            check_columns(path, names, list(file))
            found = {name: file[name] for name in names}
    except ConfigError:
        raise
    except (OSError, ValueError, EOFError) as error:
        raise _unreadable(path, error) from error
    speakers, characters = [str(name) for name in found["client_names"]], len(found["characters"])
    for part in ("train", "test"):
        without = np.setdiff1d(np.arange(len(speakers)), found[f"{part}_client"])
        if len(without):
            kind = "training" if part == "train" else "test"
            allowed = f"at least 1; {len(without)} of {len(speakers)} clients have none"
            remedy = "Remove these clients from the file."
            raise ConfigError(f"{path}: {kind} examples of client {speakers[without[0]]}", 0, allowed, remedy)
    tables = []
    for part in ("train", "test"):
        x = found[f"{part}_x"][:, -context:].astype(np.int64) + characters * np.arange(context)
        y, clients = found[f"{part}_y"].astype(np.int64), found[f"{part}_client"].astype(np.int64)
        tables.append(DataTable(x, y, clients, speakers, characters * context, characters))
    return tables[0], tables[1]


class NaturalFederation(Federation):
    """Clients of a table with a softmax regression on categories, trained by SGD.

    Parameters
    ----------
    table : rows
    train : for each client, its training rows
    seed : of the order of batches
    epochs, batch_size, rate : of local training
    """

    def __init__(
        self, table: DataTable, train: Sequence[Ints], seed: int, epochs: int, batch_size: int, rate: float
    ) -> None:
        import torch

        from aoi_fl.learning import sgd

        sgd.threads(1)
        self.seed, self._epochs, self._batch_size, self._rate = seed, epochs, batch_size, rate
        self._parts = [(torch.from_numpy(table.x[rows]), torch.from_numpy(table.y[rows])) for rows in train]
        self.sizes = np.array([len(rows) for rows in train], np.int64)
        self._model = linear(table.categories, table.classes)

    def initial_arrays(self) -> Arrays:
        """Return zeros."""
        return {name: np.zeros(tuple(v.shape), np.float32) for name, v in self._model.state_dict().items()}

    def train(self, arrays: Arrays, client: int, round_: int) -> tuple[Arrays, float]:
        """Train on a client's rows."""
        from torch.nn import functional

        from aoi_fl.learning import models, sgd

        models.load_arrays(self._model, arrays)
        x, y = self._parts[client]
        loss = sgd.fit(
            self._model,
            x,
            y,
            learning_rate=self._rate,
            batch_size=self._batch_size,
            loss=functional.cross_entropy,
            order=draws.generator(self.seed, round_, f"batches/{client}"),
            epochs=self._epochs,
        )
        return models.to_arrays(self._model), loss

    def evaluate(self, arrays: Arrays, x: Ints, y: Ints) -> tuple[float, float]:
        """Return mean loss and accuracy of a model on rows."""
        import torch
        from torch.nn import functional

        from aoi_fl.learning import models, sgd

        models.load_arrays(self._model, arrays)
        return sgd.evaluate(self._model, torch.from_numpy(x), torch.from_numpy(y), functional.cross_entropy, 5000)


def linear(categories: int, classes: int) -> Any:
    """Return a softmax regression: the sum of a table's rows at an example's categories, and a bias."""
    import torch

    class Linear(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.EmbeddingBag(categories, classes, mode="sum")
            self.bias = torch.nn.Parameter(torch.zeros(classes))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.table(x) + self.bias
            return found

    return Linear()
