"""Manual steps of gradient descent for models of linear layers with rectifiers between them.

One BLAS call computes a layer's gradient and adds it to the weights, W ← W − η·δᵀa. No gradient is stored, which saves
autograd's passes through memory of the model's size in each step.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

Step: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""A step on images (b, …) and labels (b,); returns the mean loss before it."""

# torch's private attributes for hooks on layers and parameters; there is no public access.
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def step_of(model: nn.Module, loss: Callable[..., Tensor], learning_rate: float) -> Step | None:
    """Return a function that takes a step of plain SGD with this model, or None for autograd.

    It supports sequences of one Flatten and linear layers with biases, with a rectifier after each layer except the
    last. All parameters must be trained, without hooks.
    """
    layers = _layers(model)
    if layers is None:
        return None
    slope = _of_cross_entropy if loss is functional.cross_entropy else _by_autograd(loss)

    @torch.no_grad()
    def step(images: Tensor, labels: Tensor) -> Tensor:
        inputs = [images.flatten(1)]
        for layer in layers[:-1]:
            inputs.append(functional.linear(inputs[-1], layer.weight, layer.bias).relu_())
        value, back = slope(functional.linear(inputs[-1], layers[-1].weight, layers[-1].bias), labels)
        ones = back.new_ones(len(back))
        for i, layer in reversed(tuple(enumerate(layers))):
            here, given = back, inputs[i]
            if i:  # before its weights move
                back = torch.ops.aten.threshold_backward(here @ layer.weight, given, 0)
            layer.weight.addmm_(here.T, given, alpha=-learning_rate)
            layer.bias.addmv_(here.T, ones, alpha=-learning_rate)
        return value

    return step


def _layers(model: nn.Module) -> list[nn.Linear] | None:
    """Return the linear layers of a supported model, else None."""
    parts: list[Any] = list(model.children()) if type(model) is nn.Sequential else []
    linear = parts[1::2]
    alike = (
        [type(part) for part in parts] == [nn.Flatten, nn.Linear, *[nn.ReLU, nn.Linear] * (len(linear) - 1)]
        and (parts[0].start_dim, parts[0].end_dim) == (1, -1)
        and all(part.bias is not None for part in linear)
    )
    parameters = [parameter for part in linear for parameter in part.parameters()]
    trained = {id(parameter) for parameter in parameters if parameter.requires_grad}  # a layer may occur twice
    hooked = any(getattr(part, hooks, None) for part in (model, *parts, *parameters) for hooks in _HOOKS)
    return linear if alike and len(trained) == 2 * len(linear) and not hooked else None


def _of_cross_entropy(outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean cross entropy of outputs (b, classes), and its gradient."""
    logs = functional.log_softmax(outputs, dim=1)
    value = functional.nll_loss(logs, labels)
    right = labels.unsqueeze(1) == torch.arange(outputs.shape[1], device=labels.device)
    return value, logs.exp_().sub_(right.to(logs)).div_(len(labels))


def _by_autograd(loss: Callable[..., Tensor]) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return a function of outputs (b, classes) that computes a loss's mean and its gradient."""

    @torch.enable_grad()
    def slope_of(outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        value = loss(outputs.requires_grad_(), labels)
        (slope,) = torch.autograd.grad(value, outputs)
        return value.detach(), slope

    return slope_of
