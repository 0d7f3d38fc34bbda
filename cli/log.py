"""The log on stderr and its level."""

import logging
from typing import Annotated

import typer

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only results, warnings and errors.")]


def configure(quiet: bool = False) -> None:
    """Send Flower's log to stderr."""
    import flwr.app  # noqa: F401, it adds its own handler, which always colours

    logger = logging.getLogger("flwr")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)-8s %(message)s"))
    logger.handlers = [handler]
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
