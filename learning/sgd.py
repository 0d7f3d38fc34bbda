"""Local training: plain stochastic gradient descent, and evaluation."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor, nn

from aoi_fl.learning import manual_sgd
from aoi_fl.learning.augment import cropped_and_flipped
from aoi_fl.science.errors import ConfigError

Loss = Callable[..., Tensor]


@dataclass(frozen=True, eq=False)
class Share:
    """One client's training data.

    Attributes
    ----------
    x, y : images (n, C, H, W) and labels (n,), n ≥ 1, on one device
    order : generator of the permutations
    crops : generator of each batch's crops and flips (:mod:`aoi_fl.learning.augment`); None: none
    """

    x: Tensor
    y: Tensor
    order: np.random.Generator
    crops: np.random.Generator | None = None


def device(name: str) -> torch.device:
    """Return torch's device for ``cpu``, ``cuda``, or ``auto``, which is CUDA if available.

    Raises
    ------
    ConfigError : CUDA is not available.
    """
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        remedy = "Choose device=auto or device=cpu, or install a torch built for CUDA and check its driver."
        raise ConfigError("device", "cuda", "auto or cpu, because torch finds no CUDA device", remedy)
    return torch.device("cuda" if available and name != "cpu" else "cpu")


def products(precision: str) -> None:
    """Let a GPU round factors to TF32 (10-bit mantissa), unless the precision is ``float32``.

    torch does so by default in convolutions: two steps of the MNIST CNN then differ from a CPU's by 2e-4.
    """
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision != "float32"


def threads(count: int) -> None:
    """Let torch use ``count`` threads in this process; results depend on it in the last bits."""
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)


def fit(
    model: nn.Module,
    share: Share,
    *,
    learning_rate: float,
    batch_size: int,
    loss: Loss,
    epochs: int | None = None,
    steps: int | None = None,
    low: bool = False,
) -> float:
    """Train the model in place by mini-batch SGD without momentum.

    Each pass over the data draws a new permutation and cuts it into batches. The last batch of a pass
    may be smaller. McMahan et al. (2017), Algorithm 1, ClientUpdate. Under BatchNorm a last batch of one example joins
    the batch before it.

    Parameters
    ----------
    model : the model, on the device of the data.
    share : the data.
    learning_rate, batch_size : step length and largest number of images in a mini-batch.
    loss : called as ``loss(outputs, labels, reduction=…)``.
    epochs, steps : exactly one of them: passes over the data, or mini-batches (τ of Xu et al., 2024), with a new pass
        after each complete one.
    low : whether products are computed in bfloat16 by torch.autocast; parameters, losses and sums keep their type.

    Returns
    -------
    float
        Mean training loss over all batches, each before its step and weighted by its size. NaN or Inf if training
        diverges.

    Raises
    ------
    ConfigError : BatchNorm gets a batch of one example.
    """
    n = len(share.y)
    left = number_of_steps(n, batch_size, epochs, steps)
    parts: list[int] | int = batch_size
    normalised = any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in model.modules())
    if normalised and n % batch_size == 1 and n > 1:
        parts = [*[batch_size] * (n // batch_size - 1), batch_size + 1]
        left = left if epochs is None else epochs * len(parts)
    take = None if low else manual_sgd.step_of(model, loss, learning_rate)
    take = take or _step_by_autograd(model, loss, learning_rate, low=low)
    model.train()
    losses, sizes = [], []
    for images, labels in islice(_batches(share, parts), left):
        if share.crops is not None:
            images = cropped_and_flipped(images, share.crops)
        try:
            losses.append(take(images, labels))
        except ValueError as error:
            if not normalised or len(labels) > 1:
                raise
            allowed = "2 or more, with 2 examples at each client, as the model has BatchNorm"
            raise ConfigError("batch-size", len(labels), allowed, "Use another normalisation.") from error
        sizes.append(len(labels))
    # One transfer at the end, because each transfer makes a GPU wait.
    return float(np.average(torch.stack(losses).double().cpu().numpy(), weights=sizes))


def _step_by_autograd(model: nn.Module, loss: Loss, learning_rate: float, *, low: bool) -> manual_sgd.Step:
    """Return a function that takes a step with any model, in bfloat16 with ``low``."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def step(images: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast(images.device.type, torch.bfloat16, enabled=low):
            outputs = model(images)
        value = loss(outputs.to(images.dtype) if low else outputs, labels)
        gradients = torch.autograd.grad(value, parameters)
        with torch.no_grad():
            torch._foreach_add_(tuple(parameters), gradients, alpha=-learning_rate)
        return value.detach()

    return step


def number_of_steps(n: int, batch_size: int, epochs: int | None, steps: int | None) -> int:
    """Return the number of batches of a training on n images."""
    return steps if steps is not None else (epochs or 0) * -(-n // batch_size)


def _batches(share: Share, parts: list[int] | int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches without end, a fresh permutation for each pass."""
    while True:
        permutation = torch.from_numpy(share.order.permutation(len(share.y))).to(share.x.device)
        # With one shuffle per pass, batches are views; index_select takes a third of the time of x[permutation].
        yield from zip(*(part.index_select(0, permutation).split(parts) for part in (share.x, share.y)), strict=True)


@torch.no_grad()
def evaluate(model: nn.Module, x: Tensor, y: Tensor, loss: Loss, batch: int | None = None) -> tuple[float, float]:
    """Return the mean loss over the examples, and the accuracy or root mean squared error.

    The error is for floating-point targets ``y``. ``batch`` examples are evaluated at once; the default is small on a
    CPU, so that the layers' outputs fit its cache.
    """
    model.eval()
    batch = batch or (100 if x.device.type == "cpu" else 1000)
    total, judged = torch.zeros(2, dtype=torch.float64, device=x.device)  # losses; hits, or squared errors
    regression = y.is_floating_point()
    for images, labels in zip(x.split(batch), y.split(batch), strict=True):
        outputs = model(images)
        total += loss(outputs, labels, reduction="sum").double()
        if regression:
            judged += (outputs.reshape(labels.shape) - labels).double().square().sum()
        else:
            judged += (outputs.argmax(dim=1) == labels).sum()
    mean = float(judged) / len(x)
    return float(total) / len(x), math.sqrt(mean) if regression else mean
