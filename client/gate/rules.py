"""The rules of a device's owner, which hold whatever the app and the server say.

``docs/gate.md`` has a table of the keys of ``node.toml``.
"""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeAlias

from aoi_fl.client.device import power
from aoi_fl.science.errors import ConfigError

_OF_TIME = "pause hours only-charging only-unmetered min-separation min-hours max-updates"
KEYS = tuple(f"{_OF_TIME} max-norm max-bytes metrics evaluate apps".split())
PAUSE, HOURS, CHARGING, UNMETERED, SEPARATION, MIN_HOURS, UPDATES, NORM, BYTES, METRICS, EVALUATE, APPS = KEYS
STATE = "state-dir"  # named as the rule if the gate cannot read or write its state
NAMES = (*KEYS, STATE)
METRICS_ONLY = "metrics-only"

Value: TypeAlias = bool | bytes | float | int | str
Span: TypeAlias = tuple[time, time]

_TIME = "((?:[01]?[0-9]|2[0-3]):[0-5][0-9])"
_SPAN = re.compile(rf"\s*{_TIME}\s*-\s*{_TIME}\s*")
_ZONES = "/usr/share/zoneinfo"  # of the C library
_POSIX_ZONE = re.compile(r"(<[^>]{3,}>|[A-Za-z]{3,})[+-]?\d")
_WEST = re.compile(r"(UTC|GMT)-?0*[1-9]|([A-Za-z]{3,}|<[^>]+>)\+0*[1-9]")
DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Rules:
    """The owner's rules, by the keys of ``node.toml``; None: no limit. ``pause`` ends at its time: now, or never."""

    hours: tuple[Span, ...] = ()
    only_charging: bool = False
    only_unmetered: bool = False
    pause: datetime = datetime.min
    min_separation: int = 1
    min_hours: float = 0.0
    max_updates: int | None = None
    max_norm: float | None = None
    max_bytes: int | None = None
    metrics: frozenset[str] | None = None
    evaluate: bool | str = True
    apps: frozenset[str] | None = None

    @classmethod
    def read(cls, node: Mapping[str, Value]) -> Self:
        """Return the rules in a node's configuration.

        Raises
        ------
        ConfigError : a rule has an invalid value, or two contradict each other.
        """
        values = {key: read(key, node[key]) for key, read in _READERS.items() if key in node}
        rules = cls(**{key.replace("-", "_"): value for key, value in values.items()})
        if rules.evaluate == METRICS_ONLY and rules.metrics == frozenset():
            remedy = "Set evaluate to false, or name the metrics that may leave."
            raise ConfigError(EVALUATE, METRICS_ONLY, f"another value, because {METRICS} is none", remedy)
        return rules

    def opens(self, at: datetime) -> datetime | None:
        """Return the first time from a local time on that ``pause`` and ``hours`` allow; None: never."""
        at = max(at, self.pause)
        if at == datetime.max:
            return None
        days = (at.date() + timedelta(days=i) for i in range(2))
        begins = sorted(datetime.combine(day, begin) for day in days for begin, _ in self.hours)
        return at if self._in_hours(at) else next(begin for begin in begins if begin > at)

    def _in_hours(self, now: datetime) -> bool:
        return not self.hours or any(
            begin <= now.time() < end if begin < end else now.time() >= begin or now.time() < end
            for begin, end in self.hours
        )

    def forbids(self, now: datetime) -> str | None:
        """Return the key of the first rule that forbids participation now, a local time, or None."""
        if now < self.pause:
            return PAUSE
        if not self._in_hours(now):
            return HOURS
        if self.only_charging and not power.charging():
            return CHARGING
        if self.only_unmetered and power.metered() is not False:
            return UNMETERED
        return None


def _hours(key: str, value: Value) -> tuple[Span, ...]:
    zone = os.environ.get("TZ", "").removeprefix(":")
    if _WEST.match(zone):
        remedy = "Name a place, or write <+02>-2 for two hours east of UTC, and <-03>3 for three hours west."
        raise ConfigError("TZ", zone, "a time zone whose sign is clear: TZ counts hours west of UTC", remedy)
    if zone and not _POSIX_ZONE.match(zone) and not Path(_ZONES, zone).is_file():  # local time would be that of UTC
        remedy = "Correct it, or install the time zones (tzdata)."
        raise ConfigError("TZ", zone, "a time zone of this device, such as Europe/Berlin", remedy)
    spans = [_SPAN.fullmatch(part) for part in _parts(value)]
    times = [[time.fromisoformat(text.zfill(5)) for text in span.groups()] for span in spans if span]
    hours = tuple((begin, end) for begin, end in times)
    if len(hours) < len(spans) or any(begin == end for begin, end in hours):
        remedy = 'Write for instance "22:00-06:00" or "22:00-06:00, 12:30-13:30", or leave it out to allow all day.'
        raise ConfigError(key, value, "times of day from 00:00 to 23:59, each with a different end", remedy)
    return hours


def flag(key: str, value: Value, words: Sequence[str] = ()) -> bool | str:
    """Return a truth value or one of the words; raise ConfigError for any other value."""
    if isinstance(value, bool) or (isinstance(value, str) and value in words):
        return value
    raise ConfigError(key, value, ("true", "false", *words), "Set it to one of these.")


def number(key: str, value: Value, kind: type[float] = float) -> float:
    """Return a number above 0 of a kind; raise ConfigError for any other value."""
    if type(value) in (int, kind) and isinstance(value, int | float) and 0 < value <= sys.float_info.max:
        return kind(value)
    allowed = "a whole number from 1 on" if kind is int else "a number above 0"
    raise ConfigError(key, value, allowed, "Set it to such a number.")


def _parts(value: Value) -> list[str]:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else [""]


def _listed(value: Value, every: str, none: str) -> frozenset[str] | None:
    """Return the names in a value; None for the word of all."""
    names = frozenset(_parts(value))
    return None if names == {every} else names - {none} if names == {none} else names


def _metrics(key: str, value: Value) -> frozenset[str] | None:
    names = _listed(value, "all", "none")
    if names and names & {"", "all", "none"}:
        remedy = 'Write for instance "num-examples, loss".'
        raise ConfigError(key, value, '"all", "none", or names with commas between them', remedy)
    return names


def _apps(key: str, value: Value) -> frozenset[str] | None:
    digests = _listed(value, "any", "approved")
    if not all(map(DIGEST.fullmatch, digests or ())):
        allowed = '"any", "approved", or SHA-256 digests of 64 digits 0-9a-f with commas between them'
        raise ConfigError(key, value, allowed, "aoi device apps shows the digests of the apps that asked.")
    return digests


def _pause(key: str, value: Value) -> datetime:
    if isinstance(value, bool):
        return datetime.max if value else datetime.min
    try:
        if isinstance(value, str) and (until := datetime.fromisoformat(value)).tzinfo is None:
            return until
    except ValueError:
        pass
    allowed = 'true, a day such as "2027-01-06", or a local time such as "2027-01-06 18:00"'
    raise ConfigError(key, value, allowed, "Set it to one of these.")


_whole = partial(number, kind=int)
_READERS: Mapping[str, Callable[[str, Value], Any]] = {
    PAUSE: _pause,
    HOURS: _hours,
    CHARGING: flag,
    UNMETERED: flag,
    SEPARATION: _whole,
    MIN_HOURS: number,
    UPDATES: _whole,
    NORM: number,
    BYTES: _whole,
    METRICS: _metrics,
    EVALUATE: partial(flag, words=(METRICS_ONLY,)),
    APPS: _apps,
}
