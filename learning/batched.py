"""Local training of many clients at once, with stacked models.

Each layer is computed for all clients together. Clients are independent, so the gradient of the sum of their losses by
the stacked parameters contains each client's gradient. Plain autograd then trains all clients with as many kernels as
one client needs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from aoi_fl.learning import augment, sgd, stacked

_BLOCK = 64  # steps for which batches are drawn and moved to the device at once


def fit_many(
    model: nn.Module,
    shares: Sequence[sgd.Share],
    *,
    learning_rate: float,
    batch_size: int,
    loss: sgd.Loss,
    epochs: int | None = None,
    steps: int | None = None,
    low: bool = False,
) -> tuple[list[Tensor], list[float]]:
    """Train a copy of the model for each client at once, as :func:`.sgd.fit` does one by one.

    Draws, batches and numbers of steps are the same; only the order of additions differs. In float64 both ways agree to
    1e-9 of the largest value. In float32 they differ by some 1e-6, or more if the rate is near divergence, as after a
    change of the first parameters' last bit. Batches shorter than the longest of their step are padded with an image of
    weight 0. A client leaves the stack after its last step.

    Parameters
    ----------
    model : the common initial model, on the device and of the type of the data; it does not change. See
        :func:`aoi_fl.learning.stacked.supports`.
    shares : at least one; all or none have crops.
    learning_rate, batch_size, loss, epochs, steps, low : as in :func:`aoi_fl.learning.sgd.fit`.

    Returns
    -------
    tuple
        The trained parameters in the model's order, each (clients, *shape), and each client's mean training loss.
    """
    counts = [sgd.number_of_steps(len(share.y), batch_size, epochs, steps) for share in shares]
    # Clients with fewer steps are last, so that the clients that still train are a prefix of the stack.
    ranks = np.argsort([-count for count in counts], kind="stable")
    ordered = [shares[i] for i in ranks]
    parameters = [p.detach().repeat(len(shares), *[1] * p.dim()) for p in model.parameters()]
    x, y = (torch.cat([getattr(share, part) for share in ordered]) for part in ("x", "y"))
    losses, weights = torch.zeros((2, len(shares)), dtype=torch.float64, device=x.device)
    for step in _steps(ordered, [counts[i] for i in ranks], batch_size, x):
        clients, width = step.index.shape
        leaves = [p[:clients].requires_grad_() for p in parameters]
        chosen = step.index.flatten()
        images = x.index_select(0, chosen)
        if step.crops is not None:
            images = augment.moved(images, step.crops.flatten(1))
        if low:
            images = images.to(torch.bfloat16)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=low):
            outputs = stacked.forward(model, leaves, images.unflatten(0, (clients, width)))
        each = loss(outputs.flatten(0, 1).to(x.dtype), y.index_select(0, chosen), reduction="none")
        value = (each.view(clients, width) * step.factor).sum(dim=1)
        gradients = torch.autograd.grad(value.sum(), leaves)
        with torch.no_grad():
            torch._foreach_add_(leaves, gradients, alpha=-learning_rate)
        losses[:clients] += value.detach().double() * step.sizes
        weights[:clients] += step.sizes
    places = torch.from_numpy(np.argsort(ranks)).to(x.device)
    return [p.index_select(0, places) for p in parameters], (losses / weights)[places].tolist()


@dataclass(frozen=True, eq=False)
class _Step:
    """One step of the clients that still train: images and factors (clients, width), batch sizes (clients,).

    ``crops``, (3, clients, width), are as in :func:`aoi_fl.learning.augment.drawn`.
    """

    index: Tensor
    factor: Tensor
    sizes: Tensor
    crops: Tensor | None


def _steps(shares: Sequence[sgd.Share], counts: Sequence[int], batch_size: int, like: Tensor) -> Iterator[_Step]:
    """Yield the steps of all clients; ``counts`` decreases, images are numbered across clients."""
    sources = [_batches(len(share.y), batch_size, n, share.order) for share, n in zip(shares, counts, strict=True)]
    first = np.cumsum([0, *(len(share.y) for share in shares)])
    widest = min(batch_size, max(len(share.y) for share in shares))
    for begin in range(0, counts[0], _BLOCK):
        rows = min(_BLOCK, counts[0] - begin)
        index = np.zeros((rows, len(shares), widest), np.int64)
        factor = np.zeros((rows, len(shares), widest))
        crops = np.zeros((rows, 3, len(shares), widest), np.int64) if shares[0].crops else None
        sizes = np.zeros((rows, len(shares)), np.int64)
        for client, source in enumerate(sources):
            for row, batch in enumerate(islice(source, rows)):
                n = sizes[row, client] = len(batch)
                # Padded with an image of the batch: the loss of another image may be infinite.
                index[row, client] = first[client] + batch[0]
                index[row, client, :n] = first[client] + batch
                factor[row, client, :n] = 1 / n
                if crops is not None and (draws := shares[client].crops):
                    crops[row, :, client, :n] = augment.drawn(draws, n)
        indices, factors = torch.from_numpy(index).to(like.device), torch.from_numpy(factor).to(like)
        counted = torch.from_numpy(sizes).to(like.device)
        moves = None if crops is None else torch.from_numpy(crops).to(like.device)
        for row in range(rows):
            part = slice(np.count_nonzero(sizes[row])), slice(sizes[row].max())
            cropped = None if moves is None else moves[(row, slice(None), *part)]
            yield _Step(indices[(row, *part)], factors[(row, *part)], counted[row, part[0]], cropped)


def _batches(n: int, batch_size: int, count: int, order: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Yield the first ``count`` batches of positions, a fresh permutation for each pass."""
    while count > 0:
        permutation = order.permutation(n)
        for begin in range(0, min(n, count * batch_size), batch_size):
            yield permutation[begin : begin + batch_size]
            count -= 1
