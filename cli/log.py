"""The log on stderr and its level, and a sign of work in progress."""

import logging
import sys
from typing import Annotated

import typer

from aoi_fl.science.errors import ConfigError

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


def announce(work: str) -> None:
    """Show on stderr what takes a command some seconds, if a person sees stdout and stderr."""
    if sys.stdout.isatty() and sys.stderr.isatty():
        say(f"{work} …")


def say(line: str) -> None:
    """Print a line beside the results, to stderr."""
    print(f"aoi: {line}", file=sys.stderr, flush=True)
