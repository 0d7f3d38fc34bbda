"""Run keys from the environment: ``AOI_CLIENTS_PER_ROUND=3`` is ``clients-per-round = 3``.

Every key of ``[tool.flwr.app.config]`` has a variable; there is no list to keep in step but the one in compose.yaml,
which Compose needs to pass variables on, and which a test compares.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aoi_fl.config.fields import variable
from aoi_fl.science.errors import ConfigError

# Variables of the cluster itself, most of them for Compose to fill in (docs/deployment.md).
CLUSTER = {
    "AOI_IMAGE",
    "AOI_TORCH",
    "AOI_TORCH_INDEX",
    "AOI_SUPERLINK_HOSTS",
    "AOI_FLEET_ADDRESS",
    "AOI_LOCAL_CLIENTS",
    "AOI_SUPERLINK",
    "AOI_PAGE_PORT",
    "AOI_RUNS",
    "AOI_DATA",
    "AOI_CLIENT_MEMORY",
    "AOI_CLIENT_PREFIX",
    "AOI_CLIENT_SLEEP",
    "AOI_GPUS",
    "AOI_GPU_IMAGE",
    "AOI_GPU_TORCH",
    "AOI_GPU_TORCH_INDEX",
}


def defaults(pyproject: Path) -> dict[str, Any]:
    """Return every run key and its default."""
    config: dict[str, Any] = tomllib.loads(pyproject.read_text("utf-8"))["tool"]["flwr"]["app"]["config"]
    return config


def from_environment(environment: Mapping[str, str], known: Mapping[str, Any]) -> dict[str, str]:
    """Return the run keys that the environment sets, as text; an empty variable sets nothing.

    Raises
    ------
    ConfigError
        A variable that begins with ``AOI_`` is neither a run key's nor the cluster's.
    """
    keys = {variable(key): key for key in known}
    unknown = sorted(v for v in environment if v.startswith("AOI_") and v not in keys and v not in CLUSTER)
    if unknown:
        raise ConfigError(
            ", ".join(unknown),
            None,
            f"a run key (docs/configuration.md: {', '.join(sorted(keys))}) or a setting of the cluster (.env.example)",
            "Correct the name, or leave it out.",
        )
    return {key: environment[name] for name, key in keys.items() if environment.get(name)}
