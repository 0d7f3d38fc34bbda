"""Images that differ a little from pass to pass: the crops and flips that CIFAR is usually trained with."""

import numpy as np
import torch
from torch.nn import functional

MARGIN = 4  # pixels that a crop may be off, each way


def cropped_and_flipped(images: torch.Tensor, draws: np.random.Generator) -> torch.Tensor:
    """Return each image (n, C, H, W) moved by up to four pixels each way, zeros coming in, and flipped by a coin.

    Source: Krizhevsky, Sutskever & Hinton 2012, Section 4.1; for CIFAR with four pixels, He et al. 2016, Section 4.2.
    """
    n, _, height, width = images.shape
    device = images.device
    down, right = (torch.from_numpy(draws.integers(0, 2 * MARGIN + 1, n)).to(device) for _ in range(2))
    flips = torch.from_numpy(draws.random(n) < 0.5).to(device)
    channels_last = functional.pad(images, (MARGIN,) * 4).permute(0, 2, 3, 1)
    rows = down[:, None] + torch.arange(height, device=device)
    columns = torch.arange(width, device=device)
    columns = right[:, None] + torch.where(flips[:, None], columns.flip(0), columns)
    each = torch.arange(n, device=device)[:, None, None]
    return channels_last[each, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()
