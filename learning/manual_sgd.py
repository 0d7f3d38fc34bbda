"""Steps of gradient descent written out, for models of linear layers with rectifiers between them.

The product that makes a layer's gradient adds it to the weights itself, W ← W − η·δᵀa in one call of BLAS. So no
gradient is kept, which saves autograd's passes through memory of the model's size, a step.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

Step: TypeAlias = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""Takes a step on images (b, …), labels (b,), factors of their losses (b,) or None; returns the mean loss before it."""

# Where torch keeps what others have hung on a layer or a parameter: it has no public name to ask for that.
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def step_of(model: nn.Module, loss: Callable[..., Tensor], learning_rate: float) -> Step | None:
    """Return what takes a step of plain SGD with this model, or None where its gradients are left to autograd.

    Written out are sequences of one Flatten and then linear layers with biases, a rectifier after each but the last, of
    which every parameter is trained and none has a hook.
    """
    layers = _layers(model)
    if layers is None:
        return None
    slope = _of_cross_entropy if loss is functional.cross_entropy else _by_autograd(loss)

    @torch.no_grad()
    def step(images: Tensor, labels: Tensor, factor: Tensor | None) -> Tensor:
        inputs = [images.flatten(1)]
        for layer in layers[:-1]:
            inputs.append(functional.linear(inputs[-1], layer.weight, layer.bias).relu_())
        value, back = slope(functional.linear(inputs[-1], layers[-1].weight, layers[-1].bias), labels, factor)
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
    """Return the linear layers of a model whose steps can be written out."""
    parts = list(model.children()) if type(model) is nn.Sequential else []
    flatten, linear, rectifiers = parts[:1], parts[1::2], parts[2::2]
    alike = (
        len(linear) == len(rectifiers) + 1
        and all(type(part) is nn.Flatten and (part.start_dim, part.end_dim) == (1, -1) for part in flatten)
        and all(type(part) is nn.Linear and part.bias is not None for part in linear)
        and all(type(part) is nn.ReLU for part in rectifiers)
    )
    parameters = [parameter for part in linear for parameter in part.parameters()]
    own = len({id(parameter) for parameter in parameters}) == 2 * len(linear)
    trained = all(parameter.requires_grad for parameter in parameters)
    hooked = any(getattr(part, hooks, None) for part in (model, *parts, *parameters) for hooks in _HOOKS)
    return linear if alike and own and trained and not hooked else None  # type: ignore[return-value]


def _of_cross_entropy(outputs: Tensor, labels: Tensor, factor: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the mean cross entropy of outputs (b, classes), and its gradient by them."""
    logs = functional.log_softmax(outputs, dim=1)
    value = mean(functional.nll_loss, logs, labels, factor)
    right = labels.unsqueeze(1) == torch.arange(outputs.shape[1], device=labels.device)
    slope = logs.exp_().sub_(right.to(logs)).div_(len(labels))
    return value, slope if factor is None else slope.mul_(factor.unsqueeze(1))


def _by_autograd(loss: Callable[..., Tensor]) -> Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]:
    """Return what finds the mean of any other loss of outputs (b, classes), and its gradient by them."""

    @torch.enable_grad()
    def found(outputs: Tensor, labels: Tensor, factor: Tensor | None) -> tuple[Tensor, Tensor]:
        value = mean(loss, outputs.requires_grad_(), labels, factor)
        (slope,) = torch.autograd.grad(value, outputs)
        return value.detach(), slope

    return found


def mean(loss: Callable[..., Tensor], outputs: Tensor, labels: Tensor, factor: Tensor | None) -> Tensor:
    """Return the mean loss of outputs, each counted with its factor if there are any."""
    if factor is None:
        return loss(outputs, labels)
    return (loss(outputs, labels, reduction="none") * factor).mean()
