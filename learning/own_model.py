"""Load and check a user's own model, ``model=python:MODULE:FUNCTION``, before a run begins.

The function is called as ``FUNCTION(shape, outputs)``: ``shape`` is (channels, height, width) of an image or
(features,) of a row of a table, ``outputs`` the number of classes, or 1 in a regression. It returns a
``torch.nn.Module`` that maps float32 (N, *shape) to (N, outputs). The run seeds torch's generator before the call, so
the initial weights depend on the seed only.

The module is searched in a folder first, then among installed packages.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from aoi_fl.learning.form import Form
from aoi_fl.protocol.own_code import brief, error_line, load, looking_in, naming, unusable

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
HOW = "python:MODULE:FUNCTION"


def make(model: str, folder: str, form: Form, seed: int) -> torch.nn.Module:
    """Make the model with seeded initial values; the global random state does not change.

    Raises
    ------
    ConfigError : the module cannot be imported or has no such function, the function fails, or returns no module.
    """
    import torch

    with looking_in(folder) as place:
        function = load("model", model, place)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            remedy = "it is called as FUNCTION(shape, outputs), and returns a torch.nn.Module"
            with naming("model", model, f"its function, called with {form.shape} and {form.outputs}, raised", remedy):
                made = function(form.shape, form.outputs)
    if not isinstance(made, torch.nn.Module):
        what = f"its function returned {'the class ' if isinstance(made, type) else ''}{brief(made)}"
        raise unusable("model", model, what, "let it return a torch.nn.Module, made and not called")
    return made


def check(model: str, folder: str, form: Form, x: torch.Tensor, seed: int) -> None:
    """Check that a model can be trained, by one step on examples (n ≥ 2, *shape).

    Raises
    ------
    ConfigError : it cannot be made; its parameters are not float32 or not trained; it does not accept the data, or has
        another number of outputs; or two calls with one seed make different models.
    """
    with naming("model", model, "its check raised"):
        made, again = (make(model, folder, form, seed) for _ in range(2))
        with closing(_faults(model, form, made, again, x)) as faults:
            for what, remedy in faults:
                raise unusable("model", model, what, remedy)


_Faults: TypeAlias = Generator[tuple[str, str], None, T]
"""Of what is wrong with a model, and the remedy; the caller stops at the first."""


def _faults(model: str, form: Form, made: torch.nn.Module, again: torch.nn.Module, x: torch.Tensor) -> _Faults[None]:
    """Yield what is wrong with a model, ``made`` and made ``again`` with one seed."""
    import numpy as np
    import torch

    forms = yield from _forms(made)
    one, two = ((*m.named_parameters(), *m.named_buffers()) for m in (made, again))
    arrays = {id(array) for _, array in one}
    for name, array in two:
        if id(array) in arrays:
            yield f"called twice, it made two models with one {name}", "make every layer within the function"
    for name, parameter in made.named_parameters():
        if parameter.dtype != torch.float32:
            kind = str(parameter.dtype).removeprefix("torch.")
            yield f"the parameter {name} has type {kind}", "make it float32, as the data are: .float()"
        if not bool(torch.isfinite(parameter).all()):
            remedy = "give it finite ones, or make it a buffer with register_buffer where it is a mask"
            yield f"the parameter {name} holds NaN or infinite values", remedy
    trained = {name: p for name, p in made.named_parameters() if p.requires_grad}
    if not trained:
        yield "it has no parameter to train", "give it one, or do not freeze them all"
    first, second = ({k: v.numpy(force=True) for k, v in m.state_dict().items()} for m in (made, again))
    for name in first | second:
        if not np.array_equal(first.get(name, ()), second.get(name, ()), equal_nan=True):
            remedy = "draw from torch's seeded generator only, not from random, NumPy, or another generator"
            yield f"called twice with one seed, it made two different {name}", remedy
    with torch.random.fork_rng(devices=[]):
        yield from _outputs(model, form, made.eval(), x[:1])
        outputs = yield from _outputs(model, form, made.train(), x)
        gradients: Sequence[torch.Tensor | None] = ()
        try:
            gradients = torch.autograd.grad(outputs.sum(), list(trained.values()), allow_unused=True)
        except RuntimeError as error:
            what = f"no gradient leads from its outputs to its parameters ({error_line(error)})"
            yield what, "compute with tensors only"
    for name, after in (yield from _forms(made)).items():
        if forms.get(name) != after:
            what = f"{name} was {forms.get(name, 'not there')} when it was made, and is {after} after one step"
            yield what, "keep every buffer at the size that it has from the beginning"
    for name, gradient in zip(trained, gradients, strict=True):
        if gradient is None:
            remedy = "use it, leave it out, or freeze it with requires_grad_(False)"
            yield f"the parameter {name} has no part in the outputs", remedy


def _forms(made: torch.nn.Module) -> _Faults[dict[str, str]]:
    """Return shape and type of each array of the state; yield values that cannot be sent."""
    import torch

    forms = {}
    for name, value in made.state_dict().items():
        if not isinstance(value, torch.Tensor):
            remedy = "keep numbers in buffers (register_buffer); what get_extra_state returns cannot be averaged"
            yield f"its state has {name} of type {type(value).__name__}", remedy
        if torch.nn.parameter.is_lazy(value):
            yield (
                f"{name} has no size before the first example",
                "give its layer the sizes that follow from shape, nn.Linear(in_features, …) in place of nn.LazyLinear",
            )
        try:
            value.detach().cpu().numpy()
        except (TypeError, RuntimeError) as error:  # sparse, quantised, bfloat16, or on no device
            yield f"{name} is no array ({error_line(error)})", "keep dense float32 or integer buffers and parameters"
        forms[name] = f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    return forms


def _outputs(model: str, form: Form, made: torch.nn.Module, x: torch.Tensor) -> _Faults[torch.Tensor]:
    """Return the outputs for examples, or yield what is wrong with them."""
    import torch

    wanted = (len(x), form.outputs)
    takes = f"takes (N, {', '.join(map(str, form.shape))}) and gives (N, {form.outputs})"
    mode = "in training" if made.training else "in evaluation"
    with naming("model", model, f"given {len(x)} of the examples {mode}, it raised", f"a model {takes}"):
        outputs: torch.Tensor = made(x)
    shape = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else None
    if shape != wanted:
        got = brief(outputs) if shape is None else f"shape {shape}"
        what = f"given {len(x)} of the examples it gives {got}, and {wanted} is needed"
        yield what, f"a model {takes}: one output for each class, or one number in a regression"
    return outputs
