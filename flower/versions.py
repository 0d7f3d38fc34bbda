"""What a seam is: something of Flower's inside, on some of its versions, and what is lost on the others.

Strategies, clients and engines need Flower's public API, which has been the same since 1.32. What is more lies behind
a :class:`Seam`. Whoever needs one asks whether it is :attr:`~Seam.there`; where it is not, things go the plain way, and
one warning says what is lost.
"""

import importlib
import inspect
import logging
import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version

logger = logging.getLogger("flwr")

_NEED = re.compile(r"(?P<module>[\w.]+):(?P<attribute>[\w.]+)(?:\((?P<parameters>[\w, ]*)\))?")


def parse(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, without what follows them: ``"1.34.0rc1"`` is (1, 34, 0)."""
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()


FLOWER = version("flwr")  # the one that is installed
INSTALLED = parse(FLOWER)


@cache
def warn_once(text: str) -> None:
    """Warn, but of the same thing once only."""
    logger.warning("%s", text)


@dataclass(frozen=True)
class Seam:
    """Something of Flower's inside that one module of this room uses.

    Attributes
    ----------
    name : what it is for
    module : the module of this room
    names : of Flower's, ``module: attribute …`` a line, of a function with the parameters that are given to it
    lost : what is lost without it; empty if Flower itself does what is wanted there
    since, before : versions of Flower that have it, from the first up to the second, which does not; None: no end known
    named : whether a version without it has not got all of the names either; else it has, and nobody answers
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
        """Whether the installed version is one of those that have it."""
        return parse(self.since) <= INSTALLED and (self.before is None or parse(self.before) > INSTALLED)

    def say_what_is_lost(self) -> None:
        """Warn of what is lost; once, however often it is called."""
        warn_once(f"Flower {FLOWER}: {self.lost}. It needs a Flower {self.versions}.")

    @property
    def versions(self) -> str:
        """The versions that have it, in words."""
        return f"from {self.since} on" if self.before is None else f"from {self.since} to below {self.before}"

    @property
    def needs(self) -> list[str]:
        """The names, each ``module:attribute``."""
        lines = (line.split() for line in self.names.splitlines())
        return [module + name for module, *names in filter(None, lines) for name in names]

    def missing(self) -> list[str]:
        """Return those of its needs that the installed version does not have."""
        return [need for need in self.needs if not _has(need)]


def _has(need: str) -> bool:
    found = _NEED.fullmatch(need)
    if found is None:
        raise ValueError(f"{need!r} is no need: write it as 'module:attribute' or 'module:function(parameter, …)'")
    try:
        thing = importlib.import_module(found["module"])
        for part in found["attribute"].split("."):
            thing = getattr(thing, part)
    except (ImportError, AttributeError):
        return False
    wanted = set(re.findall(r"\w+", found["parameters"] or ""))
    return not wanted or wanted <= inspect.signature(thing).parameters.keys()  # type: ignore[arg-type]
