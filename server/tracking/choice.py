"""Which trackers there are, whether they are installed, and one of them by its name.

A tool's module is imported when it is asked for: each takes seconds.
"""

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aoi_fl.config.groups import TRACKERS
from aoi_fl.science.errors import ConfigError, install
from aoi_fl.server.tracking.base import Tracker

_CLASSES = {"tensorboard": "TensorBoard", "mlflow": "MLflow", "wandb": "WandB"}  # in the module of that name here


def check_installed(wanted: Sequence[str]) -> None:
    """See that trackers are installed.

    Raises
    ------
    ConfigError
        One is not; the message names the extra that brings it.
    """
    for name in wanted:
        if importlib.util.find_spec(name) is None:
            raise ConfigError(
                "track",
                name,
                f"the name of an installed tracker, and {TRACKERS[name]} is not installed on the server",
                f"Install it: {install(name)}, or leave it out.",
            )


def tracker(
    name: str, run: str, runs_dir: str | Path = "runs", config: Mapping[str, Any] | None = None, *, resume: bool = False
) -> Tracker:
    """Return the tracker of a name for a run; it writes under ``runs-dir/run``.

    Raises
    ------
    ConfigError
        There is none of that name, or it is not installed.
    """
    if name not in TRACKERS:
        raise ConfigError("track", name, tuple(TRACKERS), "Choose one of these.")
    check_installed([name])
    module = importlib.import_module(f"aoi_fl.server.tracking.{name}")
    made: Tracker = getattr(module, _CLASSES[name])(run, Path(runs_dir) / run, config, resume=resume)
    return made
