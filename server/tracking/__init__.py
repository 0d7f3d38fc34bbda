"""Experiment trackers: TensorBoard, MLflow, Weights & Biases.

Each is an observer and needs the extra of its name. It writes into the run's folder only and does not use the network.
Each import takes seconds, so a tool is imported when it is used::

    observer=together(record("my-run"), tracker("tensorboard", "my-run"))
"""

import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord

from aoi_fl.config.groups import TRACKERS
from aoi_fl.config.policies import Keys
from aoi_fl.protocol.records import ClientRecord, Observer, RoundRecord, RunObserver, State
from aoi_fl.science.errors import ConfigError, check_choice, install
from aoi_fl.server.tracking.base import Tracker

__all__ = ["Tracker", "check_installed", "together", "tracker"]

_CLASSES = {"tensorboard": "TensorBoard", "mlflow": "MLflow", "wandb": "WandB"}  # by the name of their module


def check_installed(wanted: Sequence[str]) -> None:
    """Check that trackers are installed.

    Raises
    ------
    ConfigError : a tracker is not installed; the message names its extra.
    """
    for name in wanted:
        if importlib.util.find_spec(name) is None:
            allowed = f"the name of an installed tracker, and {TRACKERS[name]} is not installed on the server"
            raise ConfigError("track", name, allowed, f"Install it: {install(name)}, or leave it out.")


def tracker(
    name: str, run: str, runs_dir: str | Path = "runs", config: Keys | None = None, *, resume: bool = False
) -> Tracker:
    """Return a tracker for a run; it writes into ``runs-dir/run``.

    Raises
    ------
    ConfigError : the name is unknown, or the tool is not installed.
    """
    check_choice("track", name, TRACKERS)
    check_installed([name])
    module = importlib.import_module(f"aoi_fl.server.tracking.{name}")
    tool: Tracker = getattr(module, _CLASSES[name])(run, Path(runs_dir) / run, config, resume=resume)
    return tool


class CompositeObserver:
    """Several observers as one, called in their order."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers
        self._run_observers = [observer for observer in observers if isinstance(observer, RunObserver)]

    def run_begins(self, policy: dict[str, Any], rounds: int) -> None:
        """Notify the observers of runs."""
        for observer in self._run_observers:
            observer.run_begins(policy, rounds)

    def clients_seen(self, clients: list[ClientRecord]) -> None:
        """Notify all observers."""
        for observer in self._observers:
            observer.clients_seen(clients)

    def round_done(self, record: RoundRecord, arrays: ArrayRecord, memory: State) -> None:
        """Notify all observers."""
        for observer in self._observers:
            observer.round_done(record, arrays, memory)

    def run_ends(self, stopped: str | None, error: BaseException | None) -> None:
        """Notify the observers of runs."""
        for observer in self._run_observers:
            observer.run_ends(stopped, error)


together = CompositeObserver
