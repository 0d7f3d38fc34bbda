"""A model whose layers are computed for many clients at once, their parameters stacked; which models can be."""

import logging
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional

logger = logging.getLogger("flwr")
_ALIGNED = 8  # channels of a group, for which cuDNN has kernels that treat all groups at once
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
    """Say whether convolutions treat the clients as groups of one: a GPU has too much to start with a kernel each."""
    return x.is_cuda and x.dim() == 5


def _forward_merged(model: nn.Module, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
    """Return what :func:`forward` does, with images as (width, clients·C, H, W) from the first convolution on.

    Where a rectifier and a pooling follow a convolution, the bias is added and rectified once it is pooled: the
    maximum is the same, of a quarter of the values.
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
    """Convolve images (width, clients, C, H, W), or (width, clients·C, H, W), as one convolution of groups, no bias."""
    if x.dim() == 4:
        x = x.unflatten(1, (clients, -1))
    if odd := -x.shape[2] % _ALIGNED:
        x, weight = functional.pad(x, (0, 0, 0, 0, 0, odd)), functional.pad(weight, (0, 0, 0, 0, 0, odd))
    images = x.flatten(1, 2).contiguous(memory_format=torch.channels_last)
    kernels = weight.flatten(0, 1).contiguous(memory_format=torch.channels_last)
    return functional.conv2d(images, kernels, None, layer.stride, layer.padding, layer.dilation, clients)


def _without_place(layer: nn.Module, x: Tensor, values: Iterator[Tensor]) -> Tensor:
    """Apply a layer that does not know where in an image a value is, to (clients, width, …)."""
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
