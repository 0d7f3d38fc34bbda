"""Local training of many clients at once, with stacked models.

Each layer is computed for all clients together. Clients are independent, so the gradient of the sum of their losses by
the stacked parameters contains each client's gradient. Plain autograd then trains all clients with as many kernels as
one client needs.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from aoi_fl.learning import augment, sgd, stacked
from aoi_fl.science.types import AnyArray, Ints


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
    first = np.cumsum([0, *(len(share.y) for share in ordered)])
    sources = [_batches(share, batch_size) for share in ordered]
    losses, weights = torch.zeros((2, len(shares)), dtype=torch.float64, device=x.device)
    for step in range(max(counts)):
        batches = [next(source) for source, i in zip(sources, ranks, strict=True) if counts[i] > step]
        sizes = np.array([len(batch) for batch in batches])
        clients, places = len(batches), np.arange(sizes.max())
        # Padded with images of the batch: the loss of another image may be infinite.
        index = [start + batch.take(places, mode="wrap") for start, batch in zip(first, batches, strict=False)]
        chosen = _sent(np.concatenate(index), x)
        images = x.index_select(0, chosen)
        if ordered[0].crops is not None:
            crops = np.zeros((3, clients, len(places)), np.int64)
            for i, n in enumerate(sizes.tolist()):
                crops[:, i, :n] = augment.drawn(ordered[i].crops, n)
            images = augment.moved(images, _sent(crops, x).flatten(1))
        if low:
            images = images.to(torch.bfloat16)
        leaves = [p[:clients].requires_grad_() for p in parameters]
        with torch.autocast(x.device.type, torch.bfloat16, enabled=low):
            outputs = stacked.forward(model, leaves, images.unflatten(0, (clients, -1)))
        each = loss(outputs.flatten(0, 1).to(x.dtype), y.index_select(0, chosen), reduction="none")
        factor = _sent((places < sizes[:, None]) / sizes[:, None], x)
        value = (each.view(clients, -1) * factor.to(x.dtype)).sum(dim=1)
        gradients = torch.autograd.grad(value.sum(), leaves)
        with torch.no_grad():
            torch._foreach_add_(leaves, gradients, alpha=-learning_rate)
        losses[:clients] += value.detach().double() * (size := _sent(sizes, x))
        weights[:clients] += size
    places = np.argsort(ranks)
    return [p[places] for p in parameters], (losses / weights)[places].tolist()


def _batches(share: sgd.Share, batch_size: int) -> Iterator[Ints]:
    """Yield batches of positions without end, a fresh permutation for each pass."""
    while True:
        permutation = share.order.permutation(len(share.y))
        yield from (permutation[begin : begin + batch_size] for begin in range(0, len(permutation), batch_size))


def _sent(values: AnyArray, like: Tensor) -> Tensor:
    """Return an array on a device, without waiting for the device's earlier work."""
    return torch.from_numpy(values).to(like.device, non_blocking=True)
