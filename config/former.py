"""Former names of run keys and arguments: the only place that knows them.

A former key is read from the command line, a TOML file, an environment variable, a ledger and a client's context.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from aoi_fl.science.errors import ConfigError

RENAMED = {"wire": "coordination"}
"""Present names by former ones."""
DELETED = {"drift-degrees": 1.0, "stream-window": 0}
"""Keys without a successor, with the default at which they are ignored."""


class FormerNameWarning(DeprecationWarning):
    """A run key or an argument was given under a former name."""


def present(values: Mapping[str, Any], *, warn: bool = True) -> dict[str, Any]:
    """Return run keys under their present names.

    A deleted key is dropped at its default, because each older ledger records every key. Other values stay, and the
    check of all keys refuses them.

    Parameters
    ----------
    values : run keys, former ones among them
    warn : whether a former name that is in use causes a :class:`FormerNameWarning`

    Raises
    ------
    ConfigError
        A key is given under both names.

    >>> present({"stream-window": 0, "wire": "reserve"}, warn=False)
    {'coordination': 'reserve'}
    """
    keys: dict[str, Any] = {}
    for key, value in values.items():
        if key in DELETED and str(value) == str(DELETED[key]):
            continue
        new = RENAMED.get(key, key)
        if new != key:
            if new in values:
                raise ConfigError(key, value, f"left out: its name is now {new}, which is set", "Leave it out.")
            if warn:
                _warn(key, new)
        keys[new] = value
    return keys


def argument(settings: dict[str, Any], name: str, value: Any) -> Any:
    """Return an argument of a constructor; take it out of ``settings`` where it has its former name."""
    for former in (old for old, new in RENAMED.items() if new == name and old in settings):
        _warn(former, name)
        value = settings.pop(former)
    return value


def show_former_names(show: Callable[[str], None]) -> None:
    """Show each former name that is in use as a sentence, once."""
    usual = warnings.showwarning

    def shown(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, FormerNameWarning):
            show(str(message))
        else:
            usual(message, category, *place, **more)

    warnings.showwarning = shown
    warnings.simplefilter("default", FormerNameWarning)


def _warn(former: str, name: str) -> None:
    warnings.warn(f"{former} is now {name}. Write {name} in its place.", FormerNameWarning, stacklevel=4)
