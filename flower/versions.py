"""Seams: internals that only some versions of Flower have, and the loss without them.

Strategies, clients and engines need Flower's public API, which is stable since 1.32. Each use of an internal is a
:class:`Seam`. Code checks :attr:`~Seam.there` before the use. Without the seam it falls back to Flower's own behaviour,
with one warning about the loss.
"""

import importlib
import inspect
import logging
import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version

logger = logging.getLogger("flwr")

_NEED = re.compile(r"(?P<module>[\w.]+):(?P<attribute>[\w.]+)(?:\((?P<parameters>[\w,]*)\))?")


def parse(text: str) -> tuple[int, ...]:
    """Return the numbers of a version without its suffix: ``"1.34.0rc1"`` is (1, 34, 0)."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, match[0].split("."))) if match else ()


FLOWER = version("flwr")  # the installed version
INSTALLED = parse(FLOWER)


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
    names : Flower's names, a line each module: ``module: attribute function(parameter,…)``
    lost : the loss without it; empty if Flower itself provides the function there
    since, before : the first version of Flower that has it, and the first later one that does not, or None
    named : whether a version without it lacks some of these names; else it has the names, but they do not work
    """

    name: str
    module: str
    names: str
    lost: str = ""
    since: str = "1.32"
    before: str | None = None
    named: bool = True

    @property
    def there(self) -> bool:
        """Whether the installed version of Flower has it."""
        return parse(self.since) <= INSTALLED and (self.before is None or parse(self.before) > INSTALLED)

    def say_what_is_lost(self) -> None:
        """Log one warning about the loss."""
        warn_once(f"Flower {FLOWER}: {self.lost}. It needs a Flower {self.versions}.")

    @property
    def versions(self) -> str:
        """The versions of Flower that have it, in words."""
        return f"from {self.since} on" if self.before is None else f"from {self.since} to below {self.before}"

    @property
    def needs(self) -> list[str]:
        """The names, each ``module:attribute``."""
        lines = (line.split() for line in self.names.splitlines())
        return [module + name for module, *names in filter(None, lines) for name in names]

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
