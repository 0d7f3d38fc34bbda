"""A model of one's own, ``model=python:MODULE:FUNCTION``: found, made, and tried before a run begins.

The function is called as ``FUNCTION(shape, outputs)``: ``shape`` is (channels, height, width) of an image or
(features,) of a row of a table, ``outputs`` the number of classes, or 1 in a regression. It returns a
``torch.nn.Module`` that takes float32 (N, *shape) and gives (N, outputs). It is called with torch's generator seeded by
the run, so that the initial weights are a function of the seed as those of every model.

The module is looked for in a folder first, then among what is installed.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from aoi_fl.learning.form import Form
from aoi_fl.science.errors import ConfigError

if TYPE_CHECKING:
    import torch

_PREFIX = "python:"
_FAULTS = (Exception, SystemExit)  # of what is run: a script may end the process, and nobody would know why
HOW = "python:MODULE:FUNCTION"


def is_own(model: str) -> bool:
    """Say whether a model is one's own."""
    return model.startswith(_PREFIX)


def is_well_formed(model: str) -> bool:
    """Say whether the name of a model of one's own has all its parts."""
    module, _, function = model.removeprefix(_PREFIX).partition(":")
    return is_own(model) and all(part.isidentifier() for part in (*module.split("."), function))


def source_digest(model: str, folder: str) -> str:
    """Return the SHA-256 of the file that makes the model; it is not that of what this file imports in its turn.

    Raises
    ------
    ConfigError
        The module cannot be imported.
    """
    with _first(folder):
        path = _module(model, folder).__file__
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if path and Path(path).is_file() else ""


def make(model: str, folder: str, form: Form, seed: int) -> torch.nn.Module:
    """Make the model with seeded initial values; the global random state stays as it was.

    Raises
    ------
    ConfigError
        The module cannot be imported or has no such function, the function fails, or returns no module.
    """
    import torch

    with _first(folder):
        function = _function(model, folder)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            try:
                made = function(form.shape, form.outputs)
            except _FAULTS as error:
                raise _wrong(model, f"its function, called with {form.shape} and {form.outputs}, raised {_said(error)}",
                    "it is called as FUNCTION(shape, outputs), and returns a torch.nn.Module") from error  # fmt: skip
    if not isinstance(made, torch.nn.Module):
        raise _wrong(
            model,
            f"its function returned {'the class ' if isinstance(made, type) else ''}{_brief(made)}",
            "let it return a torch.nn.Module, made and not called",
        )
    return made


def check(model: str, folder: str, form: Form, x: torch.Tensor, seed: int) -> None:
    """See that a model can be trained: by what it is made of, and by one step on examples (n, *shape), n ≥ 2.

    Raises
    ------
    ConfigError
        It cannot be made; its parameters are not float32 or not trained; it does not take the data, or gives another
        number of outputs; or two calls with one seed make two models.
    """
    import torch

    made, again = (make(model, folder, form, seed) for _ in range(2))
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
            raise _wrong(
                model,
                f"no gradient leads from its outputs to its parameters ({_said(error)})",
                "compute with tensors only",
            ) from error
    idle = [name for name, gradient in zip(trained, gradients, strict=True) if gradient is None]
    if idle:
        raise _wrong(
            model,
            f"the parameter {idle[0]} has no part in the outputs",
            "use it, leave it out, or freeze it with requires_grad_(False)",
        )


def _check_apart(model: str, made: torch.nn.Module, again: torch.nn.Module) -> None:
    """Refuse two models that share something: each client is trained in one of its own."""
    shared = None if made is not again else "twice the same module"
    if shared is None:
        arrays = {id(array): name for name, array in (*made.named_parameters(), *made.named_buffers())}
        parts = (*again.named_parameters(), *again.named_buffers())
        shared = next((f"two models with one {name}" for name, array in parts if id(array) in arrays), None)
    if shared is not None:
        raise _wrong(model, f"called twice, it made {shared}", "make every layer within the function")


def _check_parameters(model: str, made: torch.nn.Module) -> None:
    import torch

    for name, parameter in made.named_parameters():
        if parameter.dtype != torch.float32:
            kind = str(parameter.dtype).removeprefix("torch.")
            raise _wrong(model, f"the parameter {name} has type {kind}", "make it float32, as the data are: .float()")
    if not any(parameter.requires_grad for parameter in made.parameters()):
        raise _wrong(model, "it has no parameter to train", "give it one, or do not freeze them all")


def _check_equal(model: str, made: torch.nn.Module, again: torch.nn.Module) -> None:
    import numpy as np

    one, two = ({k: v.numpy(force=True) for k, v in m.state_dict().items()} for m in (made, again))
    shapes = [{name: array.shape for name, array in arrays.items()} for arrays in (one, two)]
    if shapes[0] != shapes[1]:
        name = next(n for n in sorted(shapes[0].keys() | shapes[1].keys()) if shapes[0].get(n) != shapes[1].get(n))
        raise _wrong(
            model,
            f"called twice with one seed, it made {name} with shape {shapes[0].get(name, 'none')}, then with "
            f"{shapes[1].get(name, 'none')}",
            "let the shapes follow from the arguments alone",
        )
    other = next((name for name in one if not np.array_equal(one[name], two[name], equal_nan=True)), None)
    if other is not None:
        raise _wrong(
            model,
            f"called twice with one seed, it made two different {other}",
            "draw from torch's own generator only, which is seeded, not from random, NumPy, or a generator of its own",
        )


def _outputs(model: str, form: Form, made: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    import torch

    wanted = (len(x), form.outputs)
    takes = f"takes (N, {', '.join(map(str, form.shape))}) and gives (N, {form.outputs})"
    try:
        outputs = made(x)
    except _FAULTS as error:
        mode = "in training" if made.training else "in evaluation"
        raise _wrong(
            model, f"given {len(x)} of the examples {mode}, it raised {_said(error)}", f"a model {takes}"
        ) from error
    if not isinstance(outputs, torch.Tensor) or tuple(outputs.shape) != wanted:
        got = f"shape {tuple(outputs.shape)}" if isinstance(outputs, torch.Tensor) else _brief(outputs)
        raise _wrong(
            model,
            f"given {len(x)} of the examples it gives {got}, and {wanted} is needed",
            f"a model {takes}: one output for each class, or one number in a regression",
        )
    return outputs


# Finding it ---------------------------------------------------------------------------------------------------------


@contextmanager
def _first(folder: str) -> Iterator[None]:
    """Look for modules in a folder first, for the length of the block."""
    place = str(Path(folder).expanduser().absolute())
    sys.path.insert(0, place)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(place)


def _function(model: str, folder: str) -> Callable[..., Any]:
    module, name = _module(model, folder), model.rpartition(":")[2]
    found = getattr(module, name, None)
    if not callable(found):
        what = "has none of that name" if found is None else f"has {_brief(found)} under that name"
        own = sorted(
            k for k, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__
        )
        raise _wrong(
            model, f"{name} is no function: {module.__file__} {what}", f"it defines {', '.join(own) or 'none at all'}"
        )
    return found  # type: ignore[no-any-return]


def _module(model: str, folder: str) -> ModuleType:
    name = model.removeprefix(_PREFIX).partition(":")[0]
    place = Path(folder).expanduser().absolute()
    try:
        module = importlib.import_module(name)
    except _FAULTS as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            if name.endswith(".py"):
                remedy = f"write the module without .py: {model.replace('.py:', ':', 1)}"
                raise _wrong(model, f"{name} is the name of a file", remedy) from error
            raise _wrong(
                model,
                f"there is no module {name} in {place}, nor is it installed",
                f"lay {name.split('.')[0]}.py there, or name its folder with model-dir (on a client of a deployment: "
                f"model-dir in the node's own configuration)",
            ) from error
        raise _wrong(model, f"the module {name} cannot be imported: {_said(error)}", "mend it") from error
    # Where a module of that name had been loaded before, Python gives that one.
    file, there = getattr(module, "__file__", None), place / f"{name.replace('.', '/')}.py"
    if there.is_file() and not (file and Path(file).samefile(there)):
        raise _wrong(
            model,
            f"the name {name} is taken: Python has loaded {file or 'a module of its own'}, not {there}",
            "rename it",
        )
    return module


def _wrong(model: str, what: str, remedy: str) -> ConfigError:
    return ConfigError(f"model={model!r} cannot be used: {what}. Remedy: {remedy}.")


def _said(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
