"""Examples as tensors."""

from dataclasses import dataclass
from functools import lru_cache

import torch

from aoi_fl.learning.form import Dataset, Labels
from aoi_fl.science.types import Singles


@dataclass(frozen=True, eq=False)
class Examples:
    """Examples (n, *shape) and labels or targets (n,), on the task's device."""

    x: torch.Tensor
    y: torch.Tensor

    def __len__(self) -> int:
        return len(self.y)

    @classmethod
    def of(cls, x: Singles, y: Labels, device: torch.device) -> "Examples":
        """Return arrays as examples on a device."""
        return cls(torch.from_numpy(x).to(device), torch.from_numpy(y).to(device))


@lru_cache(maxsize=1)
def tensors(dataset: Dataset, device: torch.device) -> tuple[Examples, Examples]:
    """Return the training and the test examples on the device."""
    return (
        Examples.of(dataset.train_x, dataset.train_y, device),
        Examples.of(dataset.test_x, dataset.test_y, device),
    )
