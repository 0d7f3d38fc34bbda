"""Values that several run keys share."""

import tomllib
from contextlib import suppress
from typing import Any, Literal

from aoi_fl.science.errors import ConfigError

Compensate = Literal["none", "dropout", "availability"]
MILLION = 1_000_000


def names_of(key: str, value: str) -> tuple[str, ...]:
    """Return the names of a list separated by commas.

    Raises
    ------
    ConfigError : a name is empty or occurs twice.
    """
    names = tuple(name.strip() for name in value.split(",")) if value.strip() else ()
    for i, name in enumerate(names):
        if name in ("", "tag:") or name in names[:i]:
            raise ConfigError(
                key, value, f"distinct names, and {repr(name) if name else 'an empty one'} is not", "Correct the list."
            )
    return names


def like(key: str, text: str, default: Any) -> Any:
    """Return the value of an app's own key in the type of its default.

    Raises
    ------
    ConfigError : the text is of another type.

    Examples
    --------
    >>> like("lr", "1", 0.5), like("rounds", "3", 10), like("name", "3", "x"), like("fast", "true", False)
    (1.0, 3, '3', True)
    """
    if isinstance(default, str):
        return text
    with suppress(ValueError):  # of TOML, too
        found = {"value": float(text)} if isinstance(default, float) else tomllib.loads(f"value = {text}")
        if len(found) == 1 and type(found["value"]) is type(default):
            return found["value"]
    raise ConfigError(key, text, f"of the type of {default!r}", "Correct the value.")
