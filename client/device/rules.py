"""A device's owner's rules: when a client may take part at all, whatever its age and the server say.

The keys of ``node.toml``
-------------------------
hours           times of the local day, "22:00-06:00" or several: "22:00-06:00, 12:30-13:30"; the end is not included
only-charging   true: not on battery
only-unmetered  true: not on a network that is paid by volume, nor on one of which that cannot be told
pause           true: not at all; "2027-01-06" or "2027-01-06 18:00": not before that day or time, local
min-separation  a whole number of rounds: not sooner after the last participation in a run, whatever the server says
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
    """When a client may take part.

    Attributes
    ----------
    hours : spans of the local day, begin and end; one whose end comes first goes past midnight. None at all: all day
    only_charging, only_unmetered : whether it must be
    pause : until when not, local; True: for good
    min_separation : rounds between two participations in a run, at least
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
        ConfigError : a rule has a value that is none; the message names it and those it may have.
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
        """Return the key of the first rule by which a client may not take part now; None if there is none.

        Parameters
        ----------
        now : local, without a zone
        charging, metered : asked only where a rule is about them
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
    """Return the key of the owner's rule by which a client may not take part now; None if there is none."""
    return None if node.keys().isdisjoint(KEYS) else Rules.read(node).forbids(datetime.now())


def separation(node: Mapping[str, Value]) -> int:
    """Return the owner's least number of rounds between two participations; 1 where there is no such rule.

    Raises ConfigError for a value that is no whole number from 1 on.
    """
    value = node.get(SEPARATION, 1)
    if type(value) is not int or value < 1:
        raise ConfigError(SEPARATION, value, "a whole number of rounds from 1 on", "Set it to such a number.")
    return value


def _hours(value: Value) -> tuple[Span, ...]:
    spans = [_SPAN.fullmatch(part) for part in value.split(",")] if isinstance(value, str) else [None]
    try:
        found = tuple((_time(span[1]), _time(span[2])) for span in spans if span is not None)
    except ValueError:
        found = ()
    if len(found) < len(spans) or any(begin == end for begin, end in found):
        remedy = 'Write for instance "22:00-06:00" or "22:00-06:00, 12:30-13:30", or leave it out to allow all day.'
        raise ConfigError("hours", value, "times of day from 00:00 to 23:59, each with a different end", remedy)
    return found


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
