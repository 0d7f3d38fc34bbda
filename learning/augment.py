"""Random crops and flips of images, the usual augmentation for CIFAR."""

import numpy as np
import torch
from torch.nn import functional

from aoi_fl.science.types import Ints

MARGIN = 4  # largest shift of a crop, in pixels each way


def drawn(draws: np.random.Generator, n: int) -> Ints:
    """Draw (3, n): the first row and column of each crop, and 1 for a flip."""
    moves = [draws.integers(0, 2 * MARGIN + 1, n) for _ in range(2)]
    return np.stack([*moves, draws.random(n) < 0.5])


def moved(images: torch.Tensor, crops: torch.Tensor) -> torch.Tensor:
    """Crop and flip images (n, C, H, W) by ``crops`` (3, n) of :func:`drawn`, padded with zeros."""
    _, _, height, width = images.shape
    device, (down, right, flips) = images.device, crops.unbind()
    channels_last = functional.pad(images, (MARGIN,) * 4).permute(0, 2, 3, 1)
    rows = down[:, None] + torch.arange(height, device=device)
    columns = torch.arange(width, device=device)
    columns = right[:, None] + torch.where(flips[:, None] > 0, columns.flip(0), columns)
    each = torch.arange(len(images), device=device)[:, None, None]
    return channels_last[each, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def cropped_and_flipped(images: torch.Tensor, draws: np.random.Generator) -> torch.Tensor:
    """Shift each image (n, C, H, W) by up to four pixels, and flip half of them.

    Source: Krizhevsky, Sutskever & Hinton 2012, Section 4.1; for CIFAR with four pixels, He et al. 2016, Section 4.2.
    """
    return moved(images, torch.from_numpy(drawn(draws, len(images))).to(images.device))
