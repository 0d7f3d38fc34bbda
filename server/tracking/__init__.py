"""Trackers of experiments: TensorBoard, MLflow, Weights & Biases.

Each is an observer behind an extra of its name, and writes under the run's folder only; none calls the network. A
tool's module is imported when it is asked for: each takes seconds::

    observer=together(record("my-run"), tracker("tensorboard", "my-run"))
"""

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord

from aoi_fl.config.groups import TRACKERS
from aoi_fl.science.errors import ConfigError, install
from aoi_fl.server.tracking.base import Tracker
from aoi_fl.strategies.records import ClientRecord, Observer, RoundRecord, RunObserver, State

__all__ = ["Tracker", "check_installed", "together", "tracker"]

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


class CompositeObserver:
    """Several observers as one; the most important comes first."""

    def __init__(self, observers: tuple[Observer, ...]) -> None:
        self._observers = observers
        self._witnesses = [observer for observer in observers if isinstance(observer, RunObserver)]

    def run_begins(self, policy: dict[str, Any], rounds: int) -> None:
        """Pass it on to those that want to know."""
        for observer in self._witnesses:
            observer.run_begins(policy, rounds)

    def clients_seen(self, clients: list[ClientRecord]) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.clients_seen(clients)

    def round_done(self, record: RoundRecord, arrays: ArrayRecord, memory: State) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.round_done(record, arrays, memory)

    def run_ends(self, stopped: str | None, error: BaseException | None) -> None:
        """Pass it on to those that want to know."""
        for observer in self._witnesses:
            observer.run_ends(stopped, error)


def together(*observers: Observer) -> CompositeObserver:
    """Return an observer that informs several observers in their order."""
    return CompositeObserver(observers)
