"""Seams: internals that only some versions of Flower have, and the loss without them.

Strategies, clients and engines need Flower's public API, from 1.34 on. Our SuperLink and SuperNode need 1.34, whose
parts all speak gRPC, or 1.42 or later, whose parts all speak HTTP. Each use of an internal is a :class:`Seam`. Without
it Flower's own behaviour stays.
"""

import importlib
import inspect
import logging
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from importlib.metadata import version
from typing import ParamSpec, TypeVar

logger = logging.getLogger("flwr")
P = ParamSpec("P")
T = TypeVar("T")

_NEED = re.compile(r"(?P<module>[\w.]+):(?P<attribute>[\w.]+)(?:\((?P<parameters>[\w,]*)\))?")


def parse(text: str) -> tuple[int, ...]:
    """Return the numbers of a version without its suffix: ``"1.34.0rc1"`` is (1, 34, 0)."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, match[0].split("."))) if match else ()


FLOWER = version("flwr")  # the installed version
INSTALLED = parse(FLOWER)
GRPC, HTTP = "1.34", "1.42 or later"  # the versions whose parts all speak gRPC, and those whose parts all speak HTTP


def spoken(installed: tuple[int, ...] = INSTALLED) -> str:
    """Return GRPC or HTTP, or "" for a version whose parts differ: it deploys none of our programs."""
    return GRPC if installed[:2] == (1, 34) else HTTP if installed >= (1, 42) else ""


SPOKEN = spoken()
OVER_GRPC = SPOKEN == GRPC
_TRANSPORT = {GRPC: "gRPC", HTTP: "HTTP"}.get(SPOKEN, "none")


def check_deployable() -> None:
    """End this process, with the remedy, if our SuperLink and SuperNode are not made for this Flower."""
    if not SPOKEN:
        sys.exit(f"flwr={FLOWER}: this program needs {GRPC}, or {HTTP}. pip install 'flwr==1.34.0'")


@cache
def warn_once(text: str) -> None:
    """Log a warning, at most once per text."""
    logger.warning("%s", text)


@dataclass(frozen=True)
class Seam:
    """A Flower internal that one module of this room uses.

    Attributes
    ----------
    name : its purpose
    module : the module of this room that uses it
    names : Flower's names, a line each module: ``module: attribute function(parameter,…)``; before it ``gRPC`` or
        ``HTTP`` if only the versions of that transport have them
    lost : the loss without it; empty if Flower itself provides the function there
    on : GRPC or HTTP, the versions of Flower that have it; "": all
    """

    name: str
    module: str
    names: str
    lost: str = ""
    on: str = ""

    @property
    def there(self) -> bool:
        """Whether the installed version of Flower has it."""
        return self.on in ("", SPOKEN)

    def needed(self, change: Callable[P, T]) -> Callable[P, T | None]:
        """Decorate a function that does nothing where this is not there."""

        @wraps(change)
        def changed(*args: P.args, **named: P.kwargs) -> T | None:
            return change(*args, **named) if self.there else None

        return changed

    @property
    def needs(self) -> list[str]:
        """The names for this version, each ``module:attribute``."""
        lines = re.findall(rf"^\s*(?:{_TRANSPORT} )?([\w.]+:.*)", self.names, re.MULTILINE)
        return [module + name for module, *names in map(str.split, lines) for name in names]

    def missing(self) -> list[str]:
        """Return the needs that the installed version of Flower lacks."""
        return [need for need in self.needs if not _has(need)]


def _has(need: str) -> bool:
    match = _NEED.fullmatch(need)
    if match is None:
        raise ValueError(f"{need!r} is no need: write it as 'module:attribute' or 'module:function(parameter,…)'")
    try:
        thing = importlib.import_module(match["module"])
        for part in match["attribute"].split("."):
            thing = getattr(thing, part)
    except (ImportError, AttributeError):
        return False
    wanted = set(re.findall(r"\w+", match["parameters"] or ""))
    return not wanted or wanted <= inspect.signature(thing).parameters.keys()  # type: ignore[arg-type]
