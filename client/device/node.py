"""Check the keys of a device's ``node.toml``; a misspelt rule would have no effect."""

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aoi_fl.client.gate import rules
from aoi_fl.protocol.files import read_regular
from aoi_fl.science.errors import ConfigError, did_you_mean

_NUMBERS = ("payment", "sensitivity", "round-seconds")
_OTHER = (
    "name",
    "state-dir",
    "data-file",
    "refresh-command",
    "model-dir",
    "partition-file",
    "data-dir",
    "seed",
    "tags",
)
_FLOWERS = ("partition-id", "num-partitions")
_OF_APP = "app-keys"
KEYS = (*_OTHER, *_FLOWERS, *_NUMBERS, *rules.KEYS, "sleep", _OF_APP)


def read(path: Path, option: str, *needs: str) -> dict[str, Any]:
    """Return the keys of a ``node.toml``, which an option of a command names.

    Raises
    ------
    ConfigError : the file cannot be read, or lacks one of the needed keys.
    """
    try:
        node = tomllib.loads(read_regular(path).decode())
        if lacks := set(needs) - node.keys():
            raise ValueError(f"without {', '.join(sorted(lacks))}")
    except (OSError, ValueError, RecursionError) as error:
        remedy = "Correct it, run aoi enroll first, or give the client's folder with --dir."
        raise ConfigError(option, path, f"a client's node.toml ({error})", remedy) from error
    return node


def check(node: Mapping[str, Any]) -> rules.Rules:
    """Return the owner's rules.

    Raises
    ------
    ConfigError : a key is unknown or misspelt, or a value is of the wrong kind. ``app-keys`` names the keys that belong
        to the ClientApp.
    """
    for key in (_OF_APP, "tags"):
        if not isinstance(node.get(key, ""), str):
            raise ConfigError(key, node[key], 'words separated by commas, such as "gpu,ward-7"', "Set it in node.toml.")
    of_app = {part.strip() for part in node.get(_OF_APP, "").split(",")}
    for key in node.keys() - KEYS - of_app:
        near = did_you_mean(key, KEYS).strip() or f"Correct it, or name it in {_OF_APP} if your ClientApp reads it."
        raise ConfigError(key, None, f"a key of node.toml: {', '.join(KEYS)}", near)
    for key in _NUMBERS:
        value = node.get(key, 1.0)
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise ConfigError(key, value, "a number above 0", "Set it in node.toml.")
    if not isinstance(node.get("sleep", False), bool):
        raise ConfigError("sleep", node["sleep"], "true or false", "Set it in node.toml.")
    return rules.Rules.read(node)
