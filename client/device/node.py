"""Check the keys of a device's ``node.toml``; a misspelt rule would have no effect."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aoi_fl.client.gate import rules
from aoi_fl.protocol.files import read_regular
from aoi_fl.science.errors import ConfigError, did_you_mean, refusing

_OF_APP = "app-keys"


def _words(key: str, value: object) -> None:
    if not isinstance(value, str):
        raise ConfigError(key, value, 'words separated by commas, such as "gpu,ward-7"', "Set it in node.toml.")


_CHECKS: Mapping[str, Callable[[str, Any], object]] = {
    **dict.fromkeys(("payment", "sensitivity", "round-seconds"), rules.number),
    **dict.fromkeys((_OF_APP, "tags"), _words),
    "sleep": rules.flag,
}
_OTHER = "name state-dir data-file refresh-command model-dir partition-file data-dir seed partition-id num-partitions"
KEYS = (*_OTHER.split(), *_CHECKS, *rules.KEYS)


def read(path: Path, option: str, *needs: str) -> dict[str, Any]:
    """Return the keys of a ``node.toml``, which an option of a command names.

    Raises
    ------
    ConfigError : the file cannot be read, or lacks one of the needed keys.
    """
    remedy = "Correct it, run aoi enroll first, or give the client's folder with --dir."
    with refusing((OSError, ValueError, RecursionError), option, path, "a client's node.toml", remedy):
        node = tomllib.loads(read_regular(path).decode())
        if lacks := set(needs) - node.keys():
            raise ValueError(f"without {', '.join(sorted(lacks))}")
    return node


def check(node: Mapping[str, Any]) -> rules.Rules:
    """Return the owner's rules.

    Raises
    ------
    ConfigError : a key is unknown or misspelt, or a value is of the wrong kind. ``app-keys`` names the keys that belong
        to the ClientApp.
    """
    for key, check_value in _CHECKS.items():
        if key in node:
            check_value(key, node[key])
    of_app = {part.strip() for part in node.get(_OF_APP, "").split(",")}
    for key in node.keys() - KEYS - of_app:
        near = did_you_mean(key, KEYS).strip() or f"Correct it, or name it in {_OF_APP} if your ClientApp reads it."
        raise ConfigError(key, None, f"a key of node.toml: {', '.join(KEYS)}", near)
    return rules.Rules.read(node)
