"""The log on stderr: its level and its colours, which only a terminal gets."""

import logging
import os
import sys
from typing import Annotated

import typer

from aoi_fl.science.errors import ConfigError

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only results, warnings and errors.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print Flower's log, too.")]


_COLOURS = {logging.DEBUG: 34, logging.INFO: 32, logging.WARNING: 33, logging.ERROR: 31, logging.CRITICAL: 35}


class Line(logging.Formatter):
    """Level and message, with a coloured level unless NO_COLOR is set (no-color.org)."""

    def __init__(self, coloured: bool) -> None:
        super().__init__("%(levelname)-8s %(message)s")
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = super().format(record)
        if not self._coloured:
            return line
        end = len(record.levelname)
        return f"\033[{_COLOURS.get(record.levelno, 0)}m{line[:end]}\033[0m{line[end:]}"


def coloured() -> bool:
    """Return whether stderr shows colours."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def configure(quiet: bool = False, verbose: bool = False) -> None:
    """Send Flower's log to stderr.

    Raises
    ------
    ConfigError : both options are given.
    """
    if quiet and verbose:
        raise ConfigError("--quiet", "given", "given without --verbose", "Leave one of them out.")
    import flwr.app  # noqa: F401, it adds its own handler, which always colours

    level = logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO
    logger = logging.getLogger("flwr")
    handler = logging.StreamHandler()
    handler.setFormatter(Line(coloured()))
    logger.handlers = [handler]
    logger.setLevel(level)
