"""The ServerApp's log: text lines for people, or JSON lines for a collector."""

import json
import logging
import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from aoi_fl.protocol.log import logger
from aoi_fl.protocol.records import RoundRecord


class JsonLine(logging.Formatter):
    """A record as one JSON object: ``time`` (RFC 3339, UTC), ``level``, ``run``, ``message``.

    A finished round adds its record without participations as ``round``, an error its traceback as ``error``.
    """

    def __init__(self, run: str) -> None:
        super().__init__()
        self._run = run

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "run": self._run,
            "message": record.getMessage().strip(),
        }
        if isinstance(played := getattr(record, "played", None), RoundRecord):
            line["round"] = {name: value for name, value in asdict(played).items() if name != "participations"}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class StampedLine(logging.Formatter):
    """A line with time and level, for a container's log."""


def speak(formatter: JsonLine | StampedLine) -> None:
    """Make Flower's logger and :func:`tell` write such lines on stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    handler.setLevel(os.environ.get("FLWR_LOG_LEVEL", "NOTSET").upper())
    logger.handlers = [handler]


def tell(line: str, played: RoundRecord | None = None) -> None:
    """Print a line of progress to stderr, unless Flower's log level is above INFO.

    ``played`` is the record of the line's round.
    """
    if any(isinstance(handler.formatter, JsonLine | StampedLine) for handler in logger.handlers):
        logger.info("%s", line, extra={"played": played})
    elif logger.isEnabledFor(logging.INFO):
        print(line, file=sys.stderr, flush=True)
