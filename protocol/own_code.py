"""Load the user's own code, ``python:MODULE:NAME``, from a folder or an installed package."""

import importlib
import importlib.util
import json
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from modulefinder import ModuleFinder
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from aoi_fl.protocol.files import absolute, digest
from aoi_fl.science.errors import AoiError, ConfigError
from aoi_fl.science.names import OWN_PREFIX

T = TypeVar("T")
_INSTALLED = {Path(json.__file__).parents[1].name, "site-packages", "dist-packages"}  # folders of libraries
_LONGEST = 300  # characters of an error of own code


def source_digest(key: str, name: str, folder: str) -> str:
    """Return the SHA-256 of the module's file, and of the modules that it imports, but for installed ones.

    Parameters
    ----------
    key : the run key, for errors
    name : its value
    folder : searched first

    Raises
    ------
    ConfigError : the module cannot be imported.
    """
    with looking_in(folder) as place:
        file = _module(key, name, place).__file__
        if not file or not Path(file).is_file():
            return ""
        return digest([Path(file), *(path for path in _files(name, place) if not path.samefile(file))])


def _files(value: str, place: Path) -> list[Path]:
    """Return the files that own code consists of: its module's and those that it imports, but for installed ones."""
    others = [str(absolute(other or ".")) for other in sys.path if not is_installed(Path(other))]
    finder = ModuleFinder([str(place), *others], excludes=["aoi_fl"])
    with suppress(Exception):  # Python's own import names the fault
        finder.import_hook(_module_name(value))
    return [Path(module.__file__) for _, module in sorted(finder.modules.items()) if module.__file__]  # type: ignore[attr-defined]


def is_installed(place: Path) -> bool:
    """Return whether a file or folder is part of Python or of an installed package."""
    return bool(_INSTALLED & set(place.parts))


def _module_name(value: str) -> str:
    return value.removeprefix(OWN_PREFIX).partition(":")[0]


@contextmanager
def looking_in(folder: str) -> Iterator[Path]:
    """Search a folder first for modules, for the length of the block; yield it from the root."""
    place = absolute(folder)
    sys.path.insert(0, str(place))
    importlib.invalidate_caches()
    try:
        yield place
    finally:
        sys.path.remove(str(place))


def load(key: str, name: str, place: Path, source: str | None = None) -> Callable[..., Any]:
    """Return the function or class; call it within :func:`looking_in`, which yields the place.

    ``source`` is the :func:`source_digest` that it must have, the server's; None: any.

    Raises
    ------
    ConfigError : the module cannot be imported, has another digest, or has no function or class of that name.
    """
    if source is not None and (here := source_digest(key, name, str(place))) != source:
        allowed = f"the server's, digest {source[:12]}…; the module here has {here[:12]}…"
        raise ConfigError(key, name, allowed, "Copy the server's file.")
    module, wanted = _module(key, name, place), name.rpartition(":")[2]
    function = getattr(module, wanted, None)
    if not callable(function):
        raise unusable(key, name, f"{module.__file__} has no function {wanted}", "define it there")
    return function  # type: ignore[no-any-return]


def _module(key: str, value: str, place: Path) -> ModuleType:
    name = _module_name(value)
    file = place / f"{name.replace('.', '/')}.py"
    _forget_changed(_files(value, place))
    with naming(key, value, f"the module {name} cannot be imported:"):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if not error.name or not f"{name}.".startswith(f"{error.name}."):
                raise
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
    # Python returns a module of that name that it has loaded before.
    loaded = getattr(module, "__file__", None)
    if file.is_file() and not (loaded and Path(loaded).samefile(file)):
        what = f"the name {name} is taken: Python has loaded {loaded or 'a built-in module'}, not {file}"
        raise unusable(key, value, what, "rename it")
    return module


_loaded: dict[Path, str] = {}  # the digests of the files whose modules Python has loaded


def _forget_changed(files: list[Path]) -> None:
    """Let Python import modules again if one of their files has changed, as between two runs of a notebook."""
    now = {file.resolve(): digest([file]) for file in files}
    if any(_loaded.get(file) != content for file, content in now.items()):
        names = tuple(file.name for file in (*files, *now))  # thousands of paths end otherwise
        for name, module in list(sys.modules.items()):
            path = getattr(module, "__file__", None) or ""
            if path.endswith(names) and Path(path).resolve() in now and name != "__main__":
                del sys.modules[name]
        for file in now:  # Python compares whole seconds
            Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)
    _loaded.update(now)


def unusable(key: str, value: str, what: str, remedy: str) -> ConfigError:
    """Return the error for code that cannot be used."""
    return ConfigError(key, value, f"usable: {what}", f"{remedy[0].upper()}{remedy[1:]}.")


@contextmanager
def naming(key: str, value: str, what: str, remedy: str = "correct it") -> Iterator[None]:
    """Name own code in whatever it raises in the block, also where it ends the process without a reason.

    ``what`` is the begin of the sentence that the error ends.

    Raises
    ------
    ConfigError : the block raised something else than an error of ours or an interrupt.
    """
    try:
        yield
    except AoiError:
        raise
    except BaseException as error:
        if is_stop(error):
            raise
        frame = traceback.extract_tb(error.__traceback__)[2:][-1:]  # behind this one and the block's
        place = "".join(f" ({Path(one.filename).name}:{one.lineno})" for one in frame if one.filename[0] != "<")
        raise unusable(key, value, f"{what} {error_line(error)}{place}", remedy) from error


def is_stop(error: BaseException) -> bool:
    """Return whether an error is a request to stop this process: Ctrl-C, or a signal that Flower answers."""
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, KeyboardInterrupt) or any(frame.name == "flwr_exit" for frame in frames)


@contextmanager
def surviving() -> Iterator[None]:
    """Suppress all that an app raises in the block, also to end the process, but a request to stop it."""
    try:
        yield
    except BaseException as error:
        if is_stop(error):
            raise


def call_own(key: str, function: Callable[..., Any], *arguments: Any, made: Callable[[Any], T], wanted: str) -> T:
    """Call a function of own code on the server, and return what ``made`` makes of its result; its exceptions pass.

    Raises
    ------
    ConfigError : the function would end the process, perhaps as a success, or its result cannot be used.
    """
    try:
        result = function(*arguments)
    except BaseException as error:
        if isinstance(error, Exception) or is_stop(error):
            raise
        allowed = "a function that returns or raises an exception"
        raise ConfigError(key, error_and_place(error), allowed, "Correct it.") from error
    try:
        return made(result)
    except (AttributeError, TypeError, ValueError):
        value = f"{type(result).__name__}: {brief(result)}"
        raise ConfigError(key, value, wanted, "Change what it returns.") from None


_NOT_THEIRS = re.compile(
    r"[/\\](site|dist)-packages[/\\]|[/\\]lib[/\\]python3|^<"  # of packages, Python's own, and what calls the app
    r"|[/\\]engine[/\\](local|worker_process)\.py$|[/\\]client[/\\](participation|member)\.py$"
)


def error_and_place(error: BaseException) -> str:
    """Return an error of an app on one line, with the members of a group and the last place in the app's own code."""
    members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    theirs = [one for one in traceback.extract_tb(error.__traceback__) if not _NOT_THEIRS.search(one.filename)]
    place = "".join(f" ({Path(one.filename).name}:{one.lineno})" for one in theirs[-1:])
    return "; ".join(map(error_line, (error, *members))) + place


def error_line(error: BaseException) -> str:
    """Return an error on one line."""
    try:
        text = str(error)
    except Exception:  # its own __str__ fails
        text = "?"
    line = " ".join(f"{type(error).__name__}: {text}".split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def brief(value: object) -> str:
    """Return a value in at most 60 characters."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # its own __repr__ fails
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}…"
