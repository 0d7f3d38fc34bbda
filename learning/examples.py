"""Examples as tensors: whole data sets and subsets."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from aoi_fl.learning.form import Dataset, Labels
from aoi_fl.science.errors import ConfigError


@dataclass(frozen=True, eq=False)
class Examples:
    """Examples (n, *shape) and labels or targets (n,), on the task's device."""

    x: torch.Tensor
    y: torch.Tensor

    def __len__(self) -> int:
        return len(self.y)

    @classmethod
    def of(cls, x: NDArray[np.float32], y: Labels, device: torch.device) -> "Examples":
        """Return arrays as examples on a device."""
        return cls(torch.from_numpy(x).to(device), torch.from_numpy(y).to(device))


@lru_cache(maxsize=1)
def tensors(dataset: Dataset, device: torch.device) -> tuple[Examples, Examples]:
    """Return the training and the test examples on the device."""
    return (
        Examples.of(dataset.train_x, dataset.train_y, device),
        Examples.of(dataset.test_x, dataset.test_y, device),
    )


def chosen(
    dataset: Dataset, indices: NDArray[np.int64], labels: NDArray[np.int64] | None, device: torch.device
) -> Examples:
    """Return a subset of the training examples, with labels (n,) instead of their own if given.

    Raises
    ------
    ConfigError : an index is outside the data set, or there is no example.
    """
    where, images = np.asarray(indices, np.int64), len(dataset.train_y)
    if where.size == 0 or where.min() < 0 or where.max() >= images:
        span = f"{where.min()} to {where.max()}" if where.size else "none"
        allowed = f"image numbers from 0 to {images - 1}, those of {dataset.name}"
        raise ConfigError("partition", span, allowed, "Restore the run's own index file, or start a new run.")
    (train, _), places = tensors(dataset, device), torch.from_numpy(where).to(device)
    y = train.y[places] if labels is None else torch.from_numpy(labels).to(device)
    return Examples(train.x.index_select(0, places), y)  # a third of the time of train.x[places]
