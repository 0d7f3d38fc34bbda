"""The ServerApp's log."""

import logging
import os
import sys

logger = logging.getLogger("flwr")


def speak_with_times() -> None:
    """Make Flower's logger and :func:`tell` write time and level into each line."""
    handler = logging.StreamHandler()
    handler.setFormatter(StampedLine("%(asctime)s %(levelname)-7s %(message)s"))
    handler.setLevel(os.environ.get("FLWR_LOG_LEVEL", "NOTSET").upper())
    logger.handlers = [handler]


class StampedLine(logging.Formatter):
    """A line with time and level, for a container's log."""


def tell(line: str) -> None:
    """Print a line of progress to stderr, unless Flower's log level is above INFO."""
    if any(isinstance(handler.formatter, StampedLine) for handler in logger.handlers):
        logger.info("%s", line)
    elif logger.isEnabledFor(logging.INFO):
        print(line, file=sys.stderr, flush=True)
