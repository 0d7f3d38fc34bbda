"""A model whose layers are computed for many clients at once, their parameters stacked; which models can be."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional

logger = logging.getLogger("flwr")
_LAYERS = (nn.Flatten, nn.Linear, nn.ReLU, nn.Conv2d, nn.MaxPool2d)


def is_plain(model: nn.Module) -> bool:
    """Say whether a model is a sequence of the layers that can be stacked, none of which draws or counts."""
    return type(model) is nn.Sequential and all(type(layer) in _LAYERS for layer in model)


@lru_cache(maxsize=4)
def supports(model: nn.Module, shape: tuple[int, ...]) -> bool:
    """Say whether a model of examples of this shape can be stacked, as all of :mod:`aoi_fl.learning.models` can.

    Of a sequence of plain layers that is found out: stacked, it must do what it does alone.
    """
    if not is_plain(model) or not all(parameter.requires_grad for parameter in model.parameters()):
        return False
    like = next(model.parameters())
    x = torch.linspace(-1, 1, 2 * math.prod(shape), dtype=like.dtype, device=like.device).reshape(2, *shape)
    with torch.no_grad():
        try:
            stacked = forward(model, [p.unsqueeze(0) for p in model.parameters()], x.unsqueeze(0)).squeeze(0)
            return torch.allclose(stacked, model(x), rtol=1e-4, atol=1e-5, equal_nan=True)
        except Exception:  # a layer that has no bias, comes twice, or flattens too late
            return False


@lru_cache(maxsize=4)
def say_not_together(model: str) -> None:
    """Warn, once for each model, that it cannot be stacked."""
    logger.warning(
        "model=%s is trained one client after another: training together takes a torch.nn.Sequential of Flatten, "
        "Linear, ReLU, Conv2d and MaxPool2d layers, with biases.", model,
    )  # fmt: skip


def forward(model: nn.Module, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
    """Return the outputs (clients, width, classes) of stacked parameters on images (clients, width, C, H, W)."""
    values = iter(parameters)
    for layer in model.children():
        match layer:
            case nn.Flatten():
                x = x.flatten(2)
            case nn.ReLU():
                x = x.relu()
            case nn.Linear():
                weight, bias = next(values), next(values)
                x = torch.baddbmm(bias.unsqueeze(1), x, weight.mT)
            case nn.Conv2d():
                weight, bias = next(values), next(values)
                x = _way(layer, x, weight, bias)(layer, x, weight, bias)
            case nn.MaxPool2d():
                x = layer(x.flatten(0, 1)).unflatten(0, x.shape[:2])
            case _:
                raise TypeError(f"{type(layer).__name__} cannot be stacked")
    return x


def one_by_one(layer: nn.Conv2d, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Convolve each client's images (clients, width, C, H, W) on their own: a kernel a client."""
    stride, padding, dilation = layer.stride, layer.padding, layer.dilation
    each = zip(x, weight, bias, strict=True)
    return torch.stack([functional.conv2d(i, w, b, stride, padding, dilation) for i, w, b in each])


def grouped(layer: nn.Conv2d, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Convolve all clients' images at once, the clients as the groups of one convolution."""
    clients = len(x)
    channels = x.transpose(0, 1).flatten(1, 2)  # (width, clients·C, H, W)
    out = functional.conv2d(
        channels, weight.flatten(0, 1), bias.flatten(), layer.stride, layer.padding, layer.dilation, clients
    )
    separate: Tensor = out.unflatten(1, (clients, -1)).transpose(0, 1)
    return separate


def unfolded(layer: nn.Conv2d, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Convolve as one batched product a layer: each client's patches times its kernels.

    A layer that moves by more than a pixel, or spreads its kernel, is convolved by :func:`one_by_one`.
    """
    clients, width, _, height, columns = x.shape
    out, _, *kernel = weight.shape[1:]
    if (
        layer.padding != "same"
        or layer.stride != (1, 1)
        or layer.dilation != (1, 1)
        or kernel[0] % 2 + kernel[1] % 2 < 2
    ):
        return one_by_one(layer, x, weight, bias)
    padded = functional.pad(x.flatten(0, 1), [side // 2 for side in reversed(kernel) for _ in range(2)])
    patches = padded.unfold(2, kernel[0], 1).unfold(3, kernel[1], 1).permute(0, 2, 3, 1, 4, 5)
    flat = patches.reshape(clients, width * height * columns, -1)
    product = torch.baddbmm(bias.unsqueeze(1), flat, weight.flatten(2).mT)
    return product.view(clients, width, height, columns, out).permute(0, 1, 4, 2, 3)


_Way = Callable[[nn.Conv2d, Tensor, Tensor, Tensor], Tensor]


_faster: dict[tuple[object, ...], _Way] = {}


def _way(layer: nn.Conv2d, x: Tensor, weight: Tensor, bias: Tensor) -> _Way:
    """Return how to convolve. On a GPU that depends on cuDNN, so all ways are timed at a layer's first shape."""
    if x.device.type != "cuda" or len(x) == 1:
        return one_by_one
    key = x.device, x.dtype, x.shape[2:], weight.shape[1:]
    if key not in _faster:
        _faster[key] = min((one_by_one, grouped, unfolded), key=lambda way: _seconds(way, layer, x, weight, bias))
    return _faster[key]


def _seconds(way: _Way, layer: nn.Conv2d, x: Tensor, weight: Tensor, bias: Tensor) -> float:
    """Time a convolution forwards and backwards; only inner layers need the gradient of what comes in."""
    values = [value.detach().requires_grad_(value.requires_grad) for value in (x, weight, bias)]
    wanted = [value for value in values if value.requires_grad]
    seconds = 0.0
    for _ in range(3):  # the first calls choose and load kernels
        torch.cuda.synchronize(x.device)
        begun = time.perf_counter()
        torch.autograd.grad(way(layer, *values).sum(), wanted)
        torch.cuda.synchronize(x.device)
        seconds = time.perf_counter() - begun
    return seconds


def bytes_a_client(model: nn.Module, shape: tuple[int, ...], batch_size: int) -> int:
    """Return what one more client adds to the memory of batched training, above twice its images.

    Its parameters, their gradient, the returned copy and the reply made of it; for each image of a batch, every layer's
    output three times, which are the output, its gradient, and what the layer keeps or rearranges.
    """
    parameters = sum(p.numel() for p in model.parameters())
    like = next(model.parameters())
    outputs = 0
    with torch.no_grad():
        x = torch.zeros((1, *shape), dtype=like.dtype, device=like.device)
        for layer in model.children():
            outputs += (x := layer(x)).numel()
    return (4 * parameters + 3 * batch_size * outputs) * like.element_size()
