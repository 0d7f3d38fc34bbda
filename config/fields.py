"""Run keys as fields of groups, the source of their documentation and checks."""

import operator
import re
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, Literal, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from aoi_fl.science.errors import NAMES, ConfigError

Value = bool | int | float | str
NAME_PATTERN = r"^$|^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"


def kebab(name: str) -> str:
    """Return a field's name as a run key."""
    return name.replace("_", "-")


def snake(key: str) -> str:
    """Return a run key as a field's name."""
    return key.replace("-", "_")


def variable(key: str) -> str:
    """Return the name of the environment variable that sets a run key in a cluster."""
    return "AOI_" + snake(key).upper()


_UNITS = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_MOST_SECONDS = 1e9


def seconds(text: str) -> float:
    """Return the seconds of a time such as 6h, 90min, 3d, 45s or 45.

    >>> seconds("1.5h"), seconds("45")
    (5400.0, 45.0)
    """
    match = re.fullmatch(r"([0-9.]+) ?([a-z]*)", text.strip().lower())
    try:
        if match is None or not 0 <= (value := float(match[1]) * _UNITS[match[2]]) <= _MOST_SECONDS:
            raise ValueError
        if value == 0 and match[2]:  # without a unit 0 means no limit
            raise ValueError
        return value
    except (ValueError, KeyError):
        units = ", ".join(filter(None, _UNITS))
        allowed = f"above 0 and at most {_MOST_SECONDS:g} s, in seconds or with a unit of {units}"
        raise ConfigError("until", f"{text:.40}", allowed, "Write for instance 6h.") from None


def key(
    default: Value, help_: str, *, see: str = "", short: str = "", form: str | tuple[str, ...] = "", **bounds: Any
) -> Any:
    """Return the field of a run key.

    Parameters
    ----------
    default : its default value
    help_ : its meaning, in one line
    see : further text for the reference page, in Markdown
    short : the name of its option in commands; by default the key
    form : the allowed texts: a tuple of them, or their description in Markdown
    bounds : ge, gt, le, lt or pattern
    """
    more: Any = {"see": see, "short": short, "form": form}
    return Field(default, description=help_, json_schema_extra=more, **bounds)


class Group(BaseModel):
    """A group of run keys; its fields are the keys, with ``_`` for ``-``."""

    # Built at the first check, so that commands start faster.
    model_config = ConfigDict(
        alias_generator=kebab, populate_by_name=True, frozen=True, extra="ignore", defer_build=True
    )

    @classmethod
    def table(cls) -> Iterator[tuple[str, FieldInfo]]:
        """Yield each key of the group with its field."""
        for name, field in cls.model_fields.items():
            yield kebab(name), field


def extra(field: FieldInfo, name: str) -> Any:
    """Return ``see``, ``short`` or ``form`` of a key's field."""
    more = field.json_schema_extra
    return more.get(name, "") if isinstance(more, dict) else ""


_BOUNDS = {"ge": operator.ge, "gt": operator.gt, "le": operator.le, "lt": operator.lt}


def _limits(field: FieldInfo) -> dict[str, Any]:
    return {name: getattr(part, name) for part in field.metadata for name in _BOUNDS if hasattr(part, name)}


def check_range(name: str, value: Any, field: FieldInfo) -> None:
    """Refuse a number of another type or out of a key's range; None is the absence of a value.

    Raises
    ------
    ConfigError
        By the name under which the value was given.
    """
    limits = _limits(field)
    if value is None or not limits:
        return
    kind = Integral if field.annotation is int else Real
    right = isinstance(value, kind) and not isinstance(value, bool)
    if not right or not all(_BOUNDS[name](value, limit) for name, limit in limits.items()):
        raise ConfigError(name, value, allowed(field), "Choose another value.")


def allowed(field: FieldInfo) -> str | tuple[str, ...]:
    """Return a key's allowed values, or its range in words.

    >>> class Example(Group):
    ...     jitter: float = key(0.0, "largest delay", ge=0, le=1)
    >>> allowed(Example.model_fields["jitter"])
    'a number from 0 to 1'
    """
    if get_origin(field.annotation) is Literal:
        return get_args(field.annotation)
    if field.annotation is bool:
        return "true or false"
    if form := extra(field, "form"):
        return cast("str | tuple[str, ...]", form)
    if field.annotation is str:
        return NAMES if any(getattr(part, "pattern", None) for part in field.metadata) else "a text"
    bounds = _limits(field)
    low = f"above {bounds['gt']:g} and at most" if "gt" in bounds else f"from {bounds['ge']:g} to"
    high = bounds["lt"] - 1 if "lt" in bounds else bounds["le"]
    kind, most = ("whole number", str(high)) if field.annotation is int else ("number", f"{high:g}")
    return f"a {kind} {low} {most}"
