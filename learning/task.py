"""The task as one object: what a client trains and what the server evaluates."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from aoi.draws import generator
from aoi.errors import ConfigError
from learning import data, models, sgd

ModelArrays = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Task:
    """A data set and a model, named by plain values, so that a message or a configuration can carry it.

    Tasks cost nothing to make: the data set and one model are kept per process and shared by all that agree on them.
    Hence one thread at a time may train or evaluate.
    """

    dataset: str
    data_dir: str
    model: str
    device: str = "auto"
    seed: int = 0
    zeros: bool = False

    @property
    def data(self) -> data.Dataset:
        """The data set; loaded, or downloaded, at first use."""
        return data.load(self.dataset, self.data_dir)

    def initial_arrays(self) -> ModelArrays:
        """Return the model's first arrays, a function of the seed."""
        return models.to_arrays(
            models.build(self.model, self.data.shape, self.data.classes, seed=self.seed, zeros=self.zeros)
        )

    def train(
        self,
        arrays: Mapping[str, NDArray[np.float32]],
        indices: NDArray[np.int64],
        *,
        round_: int,
        client: int,
        learning_rate: float,
        batch_size: int,
        seed: int,
        epochs: int | None = None,
        steps: int | None = None,
        labels: NDArray[np.int64] | None = None,
        weights: NDArray[np.floating] | None = None,
    ) -> tuple[ModelArrays, float, int]:
        """Train on a client's own images; the same call gives the same bits (on a CPU, with equal thread counts).

        Parameters
        ----------
        arrays
            The model to start from.
        indices
            Which training images are the client's, (n,).
        round_, client, seed
            What the order of the batches is a function of.
        learning_rate, batch_size, epochs, steps, weights
            As in :func:`learning.sgd.fit`; ``weights`` in the order of ``indices``.
        labels
            In place of the data set's own, in the order of ``indices``.

        Returns
        -------
        tuple
            The new arrays, the mean training loss as it came out (NaN and Inf are the receiver's to refuse), and the
            number of images.

        Raises
        ------
        ConfigError
            The arrays do not fit the model, an index or a label is outside the data set, or there is no image.
        """
        work = self._working()
        chosen = self._chosen(indices)
        x = work.train_x.index_select(0, chosen)
        y = work.train_y.index_select(0, chosen) if labels is None else self._override(labels, len(chosen)).to(x.device)
        models.load_arrays(work.model, arrays)
        loss = sgd.fit(
            work.model,
            x,
            y,
            learning_rate=learning_rate,
            batch_size=batch_size,
            loss=models.loss_of(self.model),
            order=generator(seed, round_, f"batches/{client}"),
            epochs=epochs,
            steps=steps,
            weights=weights,
        )
        return models.to_arrays(work.model), loss, len(chosen)

    def evaluate_test(self, arrays: Mapping[str, NDArray[np.float32]]) -> tuple[float, float]:
        """Return mean loss and accuracy of the model on the test images."""
        work = self._working()
        models.load_arrays(work.model, arrays)
        return sgd.evaluate(work.model, work.test_x, work.test_y, models.loss_of(self.model))

    def evaluate_on(self, arrays: Mapping[str, NDArray[np.float32]], indices: NDArray[np.int64]) -> tuple[float, float]:
        """Return mean loss and accuracy of the model on some of the training images."""
        work = self._working()
        chosen = self._chosen(indices)
        models.load_arrays(work.model, arrays)
        x, y = work.train_x.index_select(0, chosen), work.train_y.index_select(0, chosen)
        return sgd.evaluate(work.model, x, y, models.loss_of(self.model))

    def _working(self) -> "_Working":
        return _working(self.data, self.model, sgd.device(self.device))

    def _chosen(self, indices: NDArray[np.int64]) -> torch.Tensor:
        chosen = np.asarray(indices, np.int64)
        images = len(self.data.train_y)
        if chosen.size == 0 or chosen.min() < 0 or chosen.max() >= images:
            span = f"{chosen.min()} to {chosen.max()}" if chosen.size else "none"
            raise ConfigError(
                f"A client's images are numbered {span}, where {self.dataset} has 0 to {images - 1}: the partition was "
                f"made for another data set; delete its index file to make it anew."
            )
        return torch.from_numpy(chosen).to(sgd.device(self.device))

    def _override(self, labels: NDArray[np.int64], images: int) -> torch.Tensor:
        y = np.asarray(labels, np.int64)
        if y.shape != (images,) or y.min() < 0 or y.max() >= self.data.classes:
            raise ConfigError(
                f"The labels given for a client's {images} images have shape {y.shape}: there must be one for each, "
                f"from 0 to {self.data.classes - 1}."
            )
        return torch.from_numpy(y)


@dataclass(frozen=True, eq=False)
class _Working:
    """The tensors on the device, and the one model that every client of this process is trained in."""

    model: torch.nn.Module
    train_x: torch.Tensor
    train_y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor


@lru_cache(maxsize=1)
def _working(dataset: data.Dataset, model: str, device: torch.device) -> _Working:
    built = models.build(model, dataset.shape, dataset.classes, seed=0).to(device)  # its values are always replaced
    arrays = (dataset.train_x, dataset.train_y, dataset.test_x, dataset.test_y)
    return _Working(built, *(torch.from_numpy(array).to(device) for array in arrays))
