"""What a device's client has done: a line for each round in which it took part, or did not by a rule of its owner's.

It is for the owner's eyes: no decision depends on it, so nothing waits for the disk, and what a power cut takes of it
is gone. Kept beside the client's state where that has a folder of its own (``state-dir``), one file a run.
"""

import json
import logging
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from aoi_fl.client.state import StateFile, checked_name
from aoi_fl.science.age import ClientAge

TOOK_PART, BY_RULE = "took part", "declined by rule"
_SUFFIX = ".history"
logger = logging.getLogger("flwr")


@dataclass(frozen=True)
class Event:
    """What a client did in a round, and when (UTC, ISO 8601); for a no by rule also which."""

    at: str
    round: int
    what: str
    rule: str | None = None


@dataclass(frozen=True)
class RunHistory:
    """A client's part in one run: its participation clock, None where it has none yet, and its events in order."""

    run: str
    clock: ClientAge | None
    events: tuple[Event, ...]


def note(folder: Path, name: str, round_: int, what: str, rule: str | None = None) -> None:
    """Add an event to a client's history of one run; a history that cannot be written costs no round."""
    event = Event(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", round_, what, rule)
    path = folder / f"{checked_name('client name', name)}{_SUFFIX}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(event)) + "\n")
    except OSError as error:
        logger.warning("The client's history %s cannot be written: %s.", path, error)


def histories(state_dir: Path, name: str) -> list[RunHistory]:
    """Return a client's histories by run, that of the latest event last."""
    known = {path.parent for suffix in (_SUFFIX, ".json") for path in state_dir.glob(f"*/{name}{suffix}")}
    found = [RunHistory(f.name, StateFile(f, name).load(0).age, _events(f / f"{name}{_SUFFIX}")) for f in known]
    return sorted(found, key=lambda history: (history.events[-1].at if history.events else "", history.run))


def _events(path: Path) -> tuple[Event, ...]:
    """Return the events of a file, once each; messages may repeat, and a line may be cut off."""
    events: dict[tuple[int, str], Event] = {}
    for line in path.read_text("utf-8", "replace").splitlines() if path.exists() else ():
        try:
            event = Event(**json.loads(line))
        except (ValueError, TypeError, RecursionError):
            continue
        texts = (event.at, event.what, event.rule or "")
        if type(event.round) is not int or not all(isinstance(text, str) for text in texts):
            continue
        events.setdefault((event.round, event.what), event)
    return tuple(events.values())
