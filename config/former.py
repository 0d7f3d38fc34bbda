"""Former names of run keys: the only place that knows them.

A former key is read from the command line, a TOML file, an environment variable, a ledger and a client's context.
"""

from collections.abc import Mapping
from typing import Any

DELETED = {"drift-degrees": 1.0, "stream-window": 0}
"""Keys without a successor, with the default at which they are ignored."""


def present(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return run keys under their present names.

    A deleted key is dropped at its default, because each older ledger records every key. Other values stay, and the
    check of all keys refuses them.

    >>> present({"stream-window": 0, "seed": 2})
    {'seed': 2}
    """
    return {key: value for key, value in values.items() if str(DELETED.get(key)) != str(value)}
