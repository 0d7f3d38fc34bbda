"""Load the user's own code, ``python:MODULE:NAME``, from a folder or an installed package."""

import hashlib
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import OWN_PREFIX

FAULTS = (Exception, SystemExit)  # a script may end the process without a reason


def source_digest(key: str, name: str, folder: str) -> str:
    """Return the SHA-256 of the module's file, without the modules that it imports.

    Parameters
    ----------
    key : the run key, for errors
    name : its value
    folder : searched first

    Raises
    ------
    ConfigError : the module cannot be imported.
    """
    with looking_in(folder):
        path = _module(key, name, folder).__file__
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if path and Path(path).is_file() else ""


@contextmanager
def looking_in(folder: str) -> Iterator[None]:
    """Search a folder first for modules, for the length of the block."""
    place = str(Path(folder).expanduser().absolute())
    sys.path.insert(0, place)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(place)


def load(key: str, name: str, folder: str) -> Callable[..., Any]:
    """Return the function or class; call it within :func:`looking_in`.

    Raises
    ------
    ConfigError : the module cannot be imported, or has no function or class of that name.
    """
    module, wanted = _module(key, name, folder), name.rpartition(":")[2]
    function = getattr(module, wanted, None)
    if not callable(function):
        what = "has none of that name" if function is None else f"has {brief(function)} under that name"
        own = sorted(
            k for k, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__
        )
        listed = ", ".join(own) or "none at all"
        raise unusable(key, name, f"{wanted} is no function: {module.__file__} {what}", f"it defines {listed}")
    return function  # type: ignore[no-any-return]


def _module(key: str, value: str, folder: str) -> ModuleType:
    name = value.removeprefix(OWN_PREFIX).partition(":")[0]
    place = Path(folder).expanduser().absolute()
    try:
        module = importlib.import_module(name)
    except FAULTS as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            if name.endswith(".py"):
                remedy = f"write the module without .py: {value.replace('.py:', ':', 1)}"
                raise unusable(key, value, f"{name} is the name of a file", remedy) from error
            raise unusable(
                key,
                value,
                f"the module {name} is neither in {place} nor installed",
                f"put {name.split('.')[0]}.py there, or set model-dir to its folder (on a client of a deployment: "
                f"model-dir in the node's own configuration)",
            ) from error
        raise unusable(
            key, value, f"the module {name} cannot be imported: {error_line(error)}", "correct it"
        ) from error
    # Python returns a module of that name that it has loaded before.
    file, there = getattr(module, "__file__", None), place / f"{name.replace('.', '/')}.py"
    if there.is_file() and not (file and Path(file).samefile(there)):
        what = f"the name {name} is taken: Python has loaded {file or 'a built-in module'}, not {there}"
        raise unusable(key, value, what, "rename it")
    return module


def unusable(key: str, value: str, what: str, remedy: str) -> ConfigError:
    """Return the error for code that cannot be used."""
    return ConfigError(key, value, f"usable: {what}", f"{remedy[0].upper()}{remedy[1:]}.")


def error_line(error: BaseException) -> str:
    """Return an error on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def brief(value: object) -> str:
    """Return a value in at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
