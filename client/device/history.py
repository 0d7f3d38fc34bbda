"""The history of a device's client: its participations and its refusals by rule.

It is for the owner only. No decision depends on it, so no write waits for the disk, and a power cut may lose lines.
With ``state-dir`` there is one file for each run beside the client's state.
"""

import errno
import json
import logging
import os
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from aoi_fl.client.state import StateFile, checked_name
from aoi_fl.protocol.files import read_regular
from aoi_fl.science.age import ClientAge
from aoi_fl.science.errors import ConfigError

TOOK_PART, BY_RULE = "took part", "declined by rule"
_SUFFIX = ".history"
_MOST_BYTES = 1 << 28
logger = logging.getLogger("flwr")


@dataclass(frozen=True)
class Event:
    """An event of a client in a round: time (UTC, ISO 8601), kind, and the rule that declined."""

    at: str
    round: int
    what: str
    rule: str | None = None


@dataclass(frozen=True)
class RunHistory:
    """A client's part in one run: its participation clock (or None) and its events in order."""

    run: str
    clock: ClientAge | None
    events: tuple[Event, ...]


def note(folder: Path, name: str, round_: int, what: str, rule: str | None = None) -> None:
    """Add an event to a client's history of one run; warn if the file cannot be written."""
    event = Event(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", round_, what, rule)
    path = folder / f"{checked_name('client name', name)}{_SUFFIX}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8", opener=_without_waiting) as file:
            if file.tell() > _MOST_BYTES // 2:
                raise OSError(errno.EFBIG, "it has reached its largest size")
            file.write(json.dumps(asdict(event)) + "\n")
    except OSError as error:
        logger.warning("The client's history %s cannot be written: %s.", path, error)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK, 0o666)  # a pipe has no reader


def histories(state_dir: Path, name: str) -> list[RunHistory]:
    """Return a client's histories of all runs, the one with the latest event last."""
    folders = {path.parent for suffix in (_SUFFIX, ".json") for path in state_dir.glob(f"*/{name}{suffix}")}
    runs = [RunHistory(f.name, StateFile(f, name).load(0).age, _events(f / f"{name}{_SUFFIX}")) for f in folders]
    return sorted(runs, key=lambda history: (history.events[-1].at if history.events else "", history.run))


def _events(path: Path) -> tuple[Event, ...]:
    """Return the events of a file without repetitions and incomplete lines."""
    events: dict[tuple[int, str], Event] = {}
    try:
        text = read_regular(path, most=_MOST_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigError("state-dir", path, f"a readable history ({error.strerror})", "Check this file.") from error
    for line in text.splitlines():
        try:
            event = Event(**json.loads(line))
        except (ValueError, TypeError, RecursionError):
            continue
        texts = (event.at, event.what, event.rule or "")
        if type(event.round) is not int or not all(isinstance(text, str) for text in texts):
            continue
        events.setdefault((event.round, event.what), event)
    return tuple(events.values())
