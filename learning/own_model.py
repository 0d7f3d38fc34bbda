"""Load and check a user's own model, ``model=python:MODULE:FUNCTION``, before a run begins.

The function is called as ``FUNCTION(shape, outputs)``: ``shape`` is (channels, height, width) of an image or
(features,) of a row of a table, ``outputs`` the number of classes, or 1 in a regression. It returns a
``torch.nn.Module`` that maps float32 (N, *shape) to (N, outputs). The run seeds torch's generator before the call, so
the initial weights depend on the seed only.

The module is searched in a folder first, then among installed packages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aoi_fl.learning.form import Form
from aoi_fl.protocol.own_code import brief, error_line, load, looking_in, naming, unusable
from aoi_fl.science.errors import ConfigError

if TYPE_CHECKING:
    import torch

HOW = "python:MODULE:FUNCTION"


def make(model: str, folder: str, form: Form, seed: int) -> torch.nn.Module:
    """Make the model with seeded initial values; the global random state does not change.

    Raises
    ------
    ConfigError : the module cannot be imported or has no such function, the function fails, or returns no module.
    """
    import torch

    with looking_in(folder):
        function = load("model", model, folder)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            remedy = "it is called as FUNCTION(shape, outputs), and returns a torch.nn.Module"
            with naming("model", model, f"its function, called with {form.shape} and {form.outputs}, raised", remedy):
                made = function(form.shape, form.outputs)
    if not isinstance(made, torch.nn.Module):
        what = f"its function returned {'the class ' if isinstance(made, type) else ''}{brief(made)}"
        raise _wrong(model, what, "let it return a torch.nn.Module, made and not called")
    return made


def check(model: str, folder: str, form: Form, x: torch.Tensor, seed: int) -> None:
    """Check that a model can be trained, by one step on examples (n ≥ 2, *shape).

    Raises
    ------
    ConfigError : it cannot be made; its parameters are not float32 or not trained; it does not accept the data, or has
        another number of outputs; or two calls with one seed make different models.
    """
    with naming("model", model, "its check raised"):
        _check(model, folder, form, x, seed)


def _check(model: str, folder: str, form: Form, x: torch.Tensor, seed: int) -> None:
    import torch

    made, again = (make(model, folder, form, seed) for _ in range(2))
    forms = _forms(model, made)
    _check_apart(model, made, again)
    _check_parameters(model, made)
    _check_equal(model, made, again)
    with torch.random.fork_rng(devices=[]):
        made.eval()
        _outputs(model, form, made, x[:1])
        made.train()
        outputs = _outputs(model, form, made, x)
        trained = {name: p for name, p in made.named_parameters() if p.requires_grad}
        try:
            gradients = torch.autograd.grad(outputs.sum(), list(trained.values()), allow_unused=True)
        except RuntimeError as error:
            what = f"no gradient leads from its outputs to its parameters ({error_line(error)})"
            raise _wrong(model, what, "compute with tensors only") from error
    for name, after in _forms(model, made).items():
        if forms.get(name) != after:
            what = f"{name} was {forms.get(name, 'not there')} when it was made, and is {after} after one step"
            raise _wrong(model, what, "keep every buffer at the size that it has from the beginning")
    idle = [name for name, gradient in zip(trained, gradients, strict=True) if gradient is None]
    if idle:
        what = f"the parameter {idle[0]} has no part in the outputs"
        raise _wrong(model, what, "use it, leave it out, or freeze it with requires_grad_(False)")


def _check_apart(model: str, made: torch.nn.Module, again: torch.nn.Module) -> None:
    """Refuse two models that share a module or an array: each client trains its own."""
    one, two = ((*m.named_parameters(), *m.named_buffers()) for m in (made, again))
    arrays = {id(array) for _, array in one}
    if (shared := next((name for name, array in two if id(array) in arrays), None)) is not None:
        what = f"called twice, it made two models with one {shared}"
        raise _wrong(model, what, "make every layer within the function")


def _forms(model: str, made: torch.nn.Module) -> dict[str, str]:
    """Return shape and type of each array of the state; refuse values that cannot be sent."""
    import torch

    forms = {}
    for name, value in made.state_dict().items():
        if not isinstance(value, torch.Tensor):
            remedy = "keep numbers in buffers (register_buffer); what get_extra_state returns cannot be averaged"
            raise _wrong(model, f"its state has {name} of type {type(value).__name__}", remedy)
        if torch.nn.parameter.is_lazy(value):
            raise _wrong(
                model,
                f"{name} has no size before the first example",
                "give its layer the sizes that follow from shape, nn.Linear(in_features, …) in place of nn.LazyLinear",
            )
        try:
            value.detach().cpu().numpy()
        except (TypeError, RuntimeError) as error:  # sparse, quantised, bfloat16, or on no device
            raise _wrong(
                model,
                f"{name} is no array ({error_line(error)})",
                "keep dense float32 or integer buffers and parameters",
            ) from error
        forms[name] = f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    return forms


def _check_parameters(model: str, made: torch.nn.Module) -> None:
    import torch

    for name, parameter in made.named_parameters():
        if parameter.dtype != torch.float32:
            kind = str(parameter.dtype).removeprefix("torch.")
            raise _wrong(model, f"the parameter {name} has type {kind}", "make it float32, as the data are: .float()")
        if not bool(torch.isfinite(parameter).all()):
            remedy = "give it finite ones, or make it a buffer with register_buffer where it is a mask"
            raise _wrong(model, f"the parameter {name} holds NaN or infinite values", remedy)
    if not any(parameter.requires_grad for parameter in made.parameters()):
        raise _wrong(model, "it has no parameter to train", "give it one, or do not freeze them all")


def _check_equal(model: str, made: torch.nn.Module, again: torch.nn.Module) -> None:
    import numpy as np

    one, two = ({k: v.numpy(force=True) for k, v in m.state_dict().items()} for m in (made, again))
    differ = (
        n for n in one | two if n not in one or n not in two or not np.array_equal(one[n], two[n], equal_nan=True)
    )
    other = next(differ, None)
    if other is not None:
        remedy = "draw from torch's seeded generator only, not from random, NumPy, or another generator"
        raise _wrong(model, f"called twice with one seed, it made two different {other}", remedy)


def _outputs(model: str, form: Form, made: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    import torch

    wanted = (len(x), form.outputs)
    takes = f"takes (N, {', '.join(map(str, form.shape))}) and gives (N, {form.outputs})"
    mode = "in training" if made.training else "in evaluation"
    with naming("model", model, f"given {len(x)} of the examples {mode}, it raised", f"a model {takes}"):
        outputs = made(x)
    if not isinstance(outputs, torch.Tensor) or tuple(outputs.shape) != wanted:
        got = f"shape {tuple(outputs.shape)}" if isinstance(outputs, torch.Tensor) else brief(outputs)
        what = f"given {len(x)} of the examples it gives {got}, and {wanted} is needed"
        raise _wrong(model, what, f"a model {takes}: one output for each class, or one number in a regression")
    return outputs


def _wrong(model: str, what: str, remedy: str) -> ConfigError:
    return unusable("model", model, what, remedy)
