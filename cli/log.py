"""The log on stderr and its level, and a sign of work in progress."""

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from aoi_fl.science.errors import ConfigError

PATIENCE = 2.0  # seconds

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only results, warnings and errors.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print Flower's log, too.")]


def configure(quiet: bool = False, verbose: bool = False) -> None:
    """Send Flower's log to stderr.

    Raises
    ------
    ConfigError : both options are given.
    """
    if quiet and verbose:
        raise ConfigError("--quiet", "given", "given without --verbose", "Leave one of them out.")
    import flwr.app  # noqa: F401, it adds its own handler, which always colours

    logger = logging.getLogger("flwr")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)-8s %(message)s"))
    logger.handlers = [handler]
    logger.setLevel(logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show on stderr what the command does if the block takes more than two seconds.

    Both stdout and stderr must be terminals, even with ``FORCE_COLOR``.
    """
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        yield
        return
    from rich.console import Console

    status = Console(stderr=True).status(what)
    timer = threading.Timer(PATIENCE, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # else it might start now and never stop
        status.stop()
