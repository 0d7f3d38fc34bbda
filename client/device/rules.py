"""The rules of a device's owner: when a client may take part, whatever age and server say.

The keys of ``node.toml``
-------------------------
hours           times of the local day, "22:00-06:00" or several: "22:00-06:00, 12:30-13:30"; the end is excluded
only-charging   true: not on battery
only-unmetered  true: not on a metered network, nor if it is unknown whether the network is metered
pause           true: never; "2027-01-06" or "2027-01-06 18:00": not before that local day or time
min-separation  the least number of rounds between two participations in a run, whatever the server says
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, time
from typing import Self, TypeAlias

from aoi_fl.client.device import power
from aoi_fl.science.errors import ConfigError

HOURS, CHARGING, UNMETERED, PAUSE, SEPARATION = KEYS = (
    "hours", "only-charging", "only-unmetered", "pause", "min-separation",
)  # fmt: skip

Value: TypeAlias = bool | bytes | float | int | str
Span: TypeAlias = tuple[time, time]

_SPAN = re.compile(r"\s*(\d\d?:\d\d)\s*-\s*(\d\d?:\d\d)\s*")


@dataclass(frozen=True)
class Rules:
    """The owner's rules for participation.

    Attributes
    ----------
    hours : spans of the local day, begin and end; a span with its end first goes past midnight; empty: all day
    only_charging, only_unmetered : whether the device must charge, and the network must be unmetered
    pause : local time before which the client does not take part; True: never
    min_separation : least number of rounds between two participations in a run
    """

    hours: tuple[Span, ...] = ()
    only_charging: bool = False
    only_unmetered: bool = False
    pause: datetime | bool = False
    min_separation: int = 1

    @classmethod
    def read(cls, node: Mapping[str, Value]) -> Self:
        """Return the rules in a node's configuration.

        Raises
        ------
        ConfigError : a rule has an invalid value.
        """
        return cls(
            hours=_hours(node[HOURS]) if HOURS in node else (),
            only_charging=_flag(node, CHARGING),
            only_unmetered=_flag(node, UNMETERED),
            pause=_pause(node.get(PAUSE, False)),
            min_separation=separation(node),
        )

    def forbids(
        self,
        now: datetime,
        charging: Callable[[], bool] = power.charging,
        metered: Callable[[], bool | None] = power.metered,
    ) -> str | None:
        """Return the key of the first rule that forbids participation now, or None.

        Parameters
        ----------
        now : local time without a zone
        charging, metered : called only if a rule needs them
        """
        if self.pause is True or (isinstance(self.pause, datetime) and now < self.pause):
            return PAUSE
        if self.hours and not any(
            begin <= now.time() < end if begin < end else now.time() >= begin or now.time() < end
            for begin, end in self.hours
        ):
            return HOURS
        if self.only_charging and not charging():
            return CHARGING
        if self.only_unmetered and metered() is not False:
            return UNMETERED
        return None


def forbidden(node: Mapping[str, Value]) -> str | None:
    """Return the key of the owner's rule that forbids participation now, or None."""
    return None if node.keys().isdisjoint(KEYS) else Rules.read(node).forbids(datetime.now())


def separation(node: Mapping[str, Value]) -> int:
    """Return the owner's least number of rounds between two participations, by default 1.

    Raises ConfigError unless the value is a whole number of at least 1.
    """
    value = node.get(SEPARATION, 1)
    if type(value) is not int or value < 1:
        raise ConfigError(SEPARATION, value, "a whole number of rounds from 1 on", "Set it to such a number.")
    return value


def _hours(value: Value) -> tuple[Span, ...]:
    spans = [_SPAN.fullmatch(part) for part in value.split(",")] if isinstance(value, str) else [None]
    try:
        hours = tuple((_time(span[1]), _time(span[2])) for span in spans if span is not None)
    except ValueError:
        hours = ()
    if len(hours) < len(spans) or any(begin == end for begin, end in hours):
        remedy = 'Write for instance "22:00-06:00" or "22:00-06:00, 12:30-13:30", or leave it out to allow all day.'
        raise ConfigError("hours", value, "times of day from 00:00 to 23:59, each with a different end", remedy)
    return hours


def _time(text: str) -> time:
    hour, minute = text.split(":")
    return time(int(hour), int(minute))


def _flag(node: Mapping[str, Value], key: str) -> bool:
    value = node.get(key, False)
    if not isinstance(value, bool):
        raise ConfigError(key, value, "true or false", "Set it to one of these.")
    return value


def _pause(value: Value) -> datetime | bool:
    if isinstance(value, bool):
        return value
    try:
        if isinstance(value, str) and (until := datetime.fromisoformat(value)).tzinfo is None:
            return until
    except ValueError:
        pass
    allowed = 'true, a day such as "2027-01-06", or a local time such as "2027-01-06 18:00"'
    raise ConfigError("pause", value, allowed, "Set it to one of these.")
