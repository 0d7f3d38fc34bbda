"""Compute a model's layers for many clients at once, with stacked parameters."""

import logging
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional

logger = logging.getLogger("flwr")
_ALIGNED = 8  # channels of a group for which cuDNN has kernels for all groups at once
_LAYERS = (nn.Flatten, nn.Linear, nn.ReLU, nn.Conv2d, nn.MaxPool2d)


def is_plain(model: nn.Module) -> bool:
    """Return whether a model is a sequence of stackable layers, which neither draw nor count."""
    return type(model) is nn.Sequential and all(type(layer) in _LAYERS for layer in model)


@lru_cache(maxsize=4)
def supports(model: nn.Module, shape: tuple[int, ...]) -> bool:
    """Return whether a model for this shape can be stacked, as all of :mod:`.models` can.

    A sequence of plain layers is tested: stacked, it must give the same outputs as alone.
    """
    if not is_plain(model) or not all(parameter.requires_grad for parameter in model.parameters()):
        return False
    like = next(model.parameters())
    x = torch.linspace(-1, 1, 2 * math.prod(shape), dtype=like.dtype, device=like.device).reshape(2, *shape)
    with torch.no_grad():
        try:
            stacked = forward(model, [p.unsqueeze(0) for p in model.parameters()], x.unsqueeze(0)).squeeze(0)
            return torch.allclose(stacked, model(x), rtol=1e-4, atol=1e-5, equal_nan=True)
        except Exception:  # a layer has no bias, occurs twice, or flattens too late
            return False


@lru_cache(maxsize=4)
def say_not_together(model: str) -> None:
    """Warn once for each model that cannot be stacked."""
    logger.warning(
        "model=%s is trained one client after another: training together takes a torch.nn.Sequential of Flatten, "
        "Linear, ReLU, Conv2d and MaxPool2d layers, with biases.",
        model,
    )


def forward(model: nn.Module, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
    """Return outputs (clients, width, classes) of stacked parameters on (clients, width, C, H, W)."""
    if merges(x):
        return _forward_merged(model, parameters, x)
    values = iter(parameters)
    for layer in model.children():
        if isinstance(layer, nn.Conv2d):
            each = zip(x, next(values), next(values), strict=True)
            stride, padding, dilation = layer.stride, layer.padding, layer.dilation
            x = torch.stack([functional.conv2d(i, w, b, stride, padding, dilation) for i, w, b in each])
        elif isinstance(layer, nn.MaxPool2d):
            x = layer(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        else:
            x = _without_place(layer, x, values)
    return x


def merges(x: Tensor) -> bool:
    """Return whether clients are groups of one convolution, which saves kernel starts on a GPU."""
    return x.is_cuda and x.dim() == 5


def _forward_merged(model: nn.Module, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
    """Compute :func:`forward` with convolutions on images (width, clients·C, H, W).

    If a rectifier and a pooling follow a convolution, the bias is added and rectified after the pooling. The maximum is
    the same, with a quarter of the values.
    """
    clients, values, layers = len(x), iter(parameters), list(model.children())
    merged = False
    while layers:
        layer = layers.pop(0)
        if isinstance(layer, nn.Conv2d):
            if not merged:
                x, merged = x.transpose(0, 1), True
            x, bias = _grouped(layer, x, next(values), clients), next(values).reshape(-1, 1, 1)
            if [type(after) for after in layers[:2]] == [nn.ReLU, nn.MaxPool2d]:
                x = (layers[1](x) + bias).relu()
                layers = layers[2:]
            else:
                x = x + bias
        elif isinstance(layer, nn.MaxPool2d):
            x = layer(x if merged else x.flatten(0, 1))
            x = x if merged else x.unflatten(0, (clients, -1))
        else:
            if isinstance(layer, nn.Flatten) and merged:
                x, merged = x.unflatten(1, (clients, -1)).transpose(0, 1), False
            x = _without_place(layer, x, values)
    return x.unflatten(1, (clients, -1)).transpose(0, 1) if merged else x


def _grouped(layer: nn.Conv2d, x: Tensor, weight: Tensor, clients: int) -> Tensor:
    """Convolve images (width, clients[·]C, H, W) as one convolution of groups, without bias."""
    if x.dim() == 4:
        x = x.unflatten(1, (clients, -1))
    if odd := -x.shape[2] % _ALIGNED:
        x, weight = functional.pad(x, (0, 0, 0, 0, 0, odd)), functional.pad(weight, (0, 0, 0, 0, 0, odd))
    images = x.flatten(1, 2).contiguous(memory_format=torch.channels_last)
    kernels = weight.flatten(0, 1).contiguous(memory_format=torch.channels_last)
    return functional.conv2d(images, kernels, None, layer.stride, layer.padding, layer.dilation, clients)


def _without_place(layer: nn.Module, x: Tensor, values: Iterator[Tensor]) -> Tensor:
    """Apply a layer that ignores positions in an image to (clients, width, …)."""
    match layer:
        case nn.Flatten():
            return x.flatten(2)
        case nn.ReLU():
            return x.relu()
        case nn.Linear():
            weight, bias = next(values), next(values)
            return torch.baddbmm(bias.unsqueeze(1), x, weight.mT)
        case _:
            raise TypeError(f"{type(layer).__name__} cannot be stacked")


def bytes_a_client(model: nn.Module, shape: tuple[int, ...], batch_size: int) -> int:
    """Return the bytes of one more client in batched training, beside twice its images.

    They are its parameters, their gradient, the returned copy and the reply. For each image of a batch, every layer's
    output counts three times: the output, its gradient, and the layer's own copy.
    """
    parameters = sum(p.numel() for p in model.parameters())
    like = next(model.parameters())
    outputs = 0
    with torch.no_grad():
        x = torch.zeros((1, *shape), dtype=like.dtype, device=like.device)
        for layer in model.children():
            outputs += (x := layer(x)).numel()
    return (4 * parameters + 3 * batch_size * outputs) * like.element_size()
