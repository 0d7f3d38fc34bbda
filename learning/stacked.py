"""Compute a model's layers for many clients at once, with stacked parameters."""

import math
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from aoi_fl.protocol.log import logger

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
    """Return outputs (clients, width, classes) of stacked parameters on (clients, width, C, H, W).

    If convolutions are merged, images are (width, clients·C, H, W) from the first of them on. If a rectifier and a
    pooling follow, the bias is then added and rectified after the pooling. The maximum is the same, with a quarter of
    the values.
    """
    clients, values, layers = len(x), iter(parameters), list(model.children())
    merges_here, merged = merges(x), False
    while layers:
        match layers.pop(0):
            case nn.Conv2d() as layer if merges_here:
                x, merged = x if merged else x.transpose(0, 1), True
                x, bias = _grouped(layer, x, next(values), clients), next(values).reshape(-1, 1, 1)
                if [type(after) for after in layers[:2]] == [nn.ReLU, nn.MaxPool2d]:
                    x = torch.relu(layers[1](x) + bias)
                    layers = layers[2:]
                else:
                    x = x + bias
            case nn.Conv2d() as layer:
                each = zip(x, next(values), next(values), strict=True)
                stride, padding, dilation = layer.stride, layer.padding, layer.dilation
                x = torch.stack([functional.conv2d(i, w, b, stride, padding, dilation) for i, w, b in each])
            case nn.MaxPool2d() as layer:
                pooled: Tensor = layer(x if merged else x.flatten(0, 1))
                x = pooled if merged else pooled.unflatten(0, (clients, -1))
            case nn.Flatten():
                x, merged = _parted(x, clients) if merged else x, False
                x = x.flatten(2)
            case nn.ReLU():
                x = x.relu()
            case nn.Linear():
                weight, bias = next(values), next(values)
                x = torch.baddbmm(bias.unsqueeze(1), x, weight.mT)
    return _parted(x, clients) if merged else x


def _parted(x: Tensor, clients: int) -> Tensor:
    """Return merged images by client, (clients, width, C, H, W)."""
    return torch.transpose(x.unflatten(1, (clients, -1)), 0, 1)


def merges(x: Tensor) -> bool:
    """Return whether clients are groups of one convolution, which saves kernel starts on a GPU."""
    return x.is_cuda and x.dim() == 5


def _grouped(layer: nn.Conv2d, x: Tensor, weight: Tensor, clients: int) -> Tensor:
    """Convolve images (width, clients[·]C, H, W) as one convolution of groups, without bias."""
    if x.dim() == 4:
        x = x.unflatten(1, (clients, -1))
    if odd := -x.shape[2] % _ALIGNED:
        x, weight = functional.pad(x, (0, 0, 0, 0, 0, odd)), functional.pad(weight, (0, 0, 0, 0, 0, odd))
    images = x.flatten(1, 2).contiguous(memory_format=torch.channels_last)
    kernels = weight.flatten(0, 1).contiguous(memory_format=torch.channels_last)
    return functional.conv2d(images, kernels, None, layer.stride, layer.padding, layer.dilation, clients)


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
