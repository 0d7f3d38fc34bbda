"""Values that several run keys share."""

from typing import Literal

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
            raise ConfigError(key, value, f"distinct names, and {name or 'an empty one'!r} is not", "Correct the list.")
    return names
