"""Run keys from the environment: ``AOI_CLIENTS_PER_ROUND=3`` is ``clients-per-round = 3``.

Every key of ``[tool.flwr.app.config]`` has a variable. Compose needs a list of them in compose.yaml, which `make
generated` writes.
"""

import tomllib
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any, TypeAlias

from dotenv import dotenv_values

from aoi_fl.config.fields import variable
from aoi_fl.config.policies import Keys
from aoi_fl.config.run import RunConfig
from aoi_fl.config.values import like
from aoi_fl.protocol.files import read_text
from aoi_fl.science.errors import ConfigError, check_choice, did_you_mean

Environment: TypeAlias = Mapping[str, str]
APP, OWN = Path("/app"), Path("/own")
FOLDERS = {"runs-dir": "/runs", "data-dir": "/data", "model-dir": "/data/models"}  # of the image
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
# Variables of the cluster itself; Compose substitutes most of them (docs/deployment.md).
CLUSTER = {
    "AOI_IMAGE",
    "AOI_FLOWER",
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
    "AOI_ENROL",
    "AOI_KEEP_RUNS",
    "AOI_APP",
    "AOI_DEVICE",
    "AOI_DEVICE_USER",
    "AOI_APP_USER",
    "AOI_CLIENT_PREFIX",
    "AOI_CLIENT_SLEEP",
    "AOI_LOG_LEVEL",
    "AOI_GPUS",
    "AOI_GPU_IMAGE",
    "AOI_GPU_TORCH",
    "AOI_GPU_TORCH_INDEX",
}


def defaults(pyproject: Path) -> dict[str, Any]:
    """Return every run key and its default."""
    app = tomllib.loads(pyproject.read_text("utf-8"))["tool"]["flwr"]["app"]
    config: dict[str, Any] = app.get("config", {})
    return config


def run_keys(environment: Environment) -> dict[str, str]:
    """Return the run keys of the environment, with the folders of the image.

    Raises
    ------
    ConfigError : a variable that begins with ``AOI_`` is unknown.
    """
    known = {key: value for key, value in defaults(APP / "pyproject.toml").items() if key not in FOLDERS}
    return from_environment(environment, known) | FOLDERS


def own_keys(environment: Environment, app: Path) -> dict[str, Any]:
    """Return the run keys of your own app that the environment sets, in the types of their defaults.

    Raises
    ------
    ConfigError : a value has another type than the key's default.
    """
    given = (
        (key, default, environment.get(variable(key))) for key, default in defaults(app / "pyproject.toml").items()
    )
    return {key: like(variable(key), text, default) for key, default, text in given if text}


def from_file(path: Path) -> dict[str, str]:
    """Return the variables of a file such as ``.env``; print a line if it cannot be read."""
    try:
        found = dotenv_values(stream=StringIO(read_text(path)), interpolate=False)
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        print(f"{path.name} cannot be read here ({error}): submit checks the settings", flush=True)
        return {}
    return {name: value or "" for name, value in found.items()}


def check(environment: Environment) -> None:
    """Check every setting before the cluster starts.

    The number of clients follows from the running containers, so `submit` checks what depends on it.

    Raises
    ------
    ConfigError : a variable is unknown, or its value is not allowed.
    """
    keys = {} if environment.get("AOI_APP") else run_keys(environment)  # your own app has keys of its own
    if keys.get("resume", "").lower() != "true":  # a resumed run takes the other keys from its ledger
        counts = [int(keys[key]) for key in ("num-clients", "clients-per-round") if keys.get(key, "").isdecimal()]
        RunConfig.parse(keys | {"num-clients": str(max([*counts, RunConfig().num_clients]))})
    check_choice("AOI_LOG_LEVEL", (environment.get("AOI_LOG_LEVEL") or "INFO").upper(), LEVELS)
    may_sleep(environment)
    asks_first(environment)
    kept_runs(environment)


def may_sleep(environment: Environment) -> bool:
    """Return whether AOI_CLIENT_SLEEP lets clients sleep until their round; true by default.

    Raises
    ------
    ConfigError : its value is neither true nor false.
    """
    return _chosen(environment, "AOI_CLIENT_SLEEP", "true", "false") == "true"


def asks_first(environment: Environment) -> bool:
    """Return whether AOI_ENROL has each new key wait for the operator; false by default.

    Raises
    ------
    ConfigError : its value is neither auto nor ask.
    """
    return _chosen(environment, "AOI_ENROL", "auto", "ask") == "ask"


def _chosen(environment: Environment, name: str, *allowed: str) -> str:
    """Return the value of a variable, by default the first one allowed."""
    value = environment.get(name) or allowed[0]
    check_choice(name, value, allowed)
    return value


def kept_runs(environment: Environment) -> int:
    """Return AOI_KEEP_RUNS, the number of ended runs that stay; 0, the default: all.

    Raises
    ------
    ConfigError : its value is not a whole number.
    """
    value = environment.get("AOI_KEEP_RUNS") or "0"
    if not (value.isascii() and value.isdecimal()):
        raise ConfigError("AOI_KEEP_RUNS", value, "a whole number of runs; 0: all", "Set it to such a number.")
    return int(value)


def from_environment(environment: Environment, known: Keys) -> dict[str, str]:
    """Return the run keys that the environment sets, as text; an empty variable sets nothing.

    Raises
    ------
    ConfigError : a variable that begins with ``AOI_`` is neither a run key's nor the cluster's.
    """
    keys = {variable(key): key for key in known}
    unknown = sorted(v for v in environment if v.startswith("AOI_") and v not in keys and v not in CLUSTER)
    if unknown:
        names = [*map(variable, known), *CLUSTER]
        raise ConfigError(
            ", ".join(unknown),
            None,
            "AOI_ and a run key in capitals, or a setting of the cluster",
            f"Correct the name, or leave it out.{did_you_mean(unknown[0], names)} docs/configuration.md and "
            ".env.example list all names.",
        )
    return {key: environment[name] for name, key in keys.items() if environment.get(name)}
