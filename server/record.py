"""Record any ServerApp's run in a ledger, for ``aoi report`` and ``aoi serve``."""

import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from flwr.serverapp.strategy import Strategy

from aoi_fl.config.policies import REGISTRY
from aoi_fl.config.run import RunConfig
from aoi_fl.science.errors import NAMES, ConfigError, StorageError
from aoi_fl.server.folder import LEDGER, has_rounds, is_played, make_run_folder, numbered, only_player
from aoi_fl.server.ledger import Ledger, ending
from aoi_fl.server.logs import tell
from aoi_fl.server.observe import Recorder
from aoi_fl.strategies import RoundOptions
from aoi_fl.strategies.strategy import AgeAwareStrategy

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Recording(Recorder):
    """An observer that writes one run's ledger, ``runs-dir/name/ledger.sqlite``, and no model.

    A second run of a name gets ``name-2``, and so on.

    The strategy's ``start`` begins and ends the recording, with the run's true status.

    Parameters
    ----------
    name : the run's name
    runs_dir : folder of all runs' folders

    Raises
    ------
    ConfigError : the name is not valid for a folder.
    """

    def __init__(self, name: str, runs_dir: str | Path = "runs") -> None:
        if not _NAME.fullmatch(name):
            raise ConfigError("run-name", name, NAMES, "Choose another name.")
        self.folder = Path(runs_dir) / name
        self._held = ExitStack()

    def run_begins(self, policy: dict[str, Any], rounds: int) -> None:
        """Make the folder and the ledger, and lock them until the end.

        Raises
        ------
        ConfigError, ResumeError : they cannot be written, or an earlier ledger cannot be read.
        """
        free = (folder for folder in numbered(self.folder) if not (has_rounds(folder / LEDGER) or is_played(folder)))
        self.folder = next(free)
        self._held.enter_context(only_player(self.folder))
        make_run_folder(self.folder)
        ledger = Ledger(self.folder / LEDGER)
        self._held.callback(ledger.close)
        ledger.note(run=self.folder.name, config={"num-server-rounds": rounds}, status="running", policy=policy)
        super().__init__(ledger, None, rounds)

    def run_ends(self, stopped: str | None, error: BaseException | None) -> None:
        """Record the end of the run."""
        with self._held, suppress(StorageError):  # an earlier error has reported the disk
            self._ledger.note(**ending(stopped, error))
        folder = self.folder.absolute()  # with Flower's local SuperLink, relative to the folder of its first start
        tell(f"recorded in {folder}: aoi report {shlex.quote(str(folder))}")


def record(name: str, runs_dir: str | Path = "runs") -> Recording:
    """Return an observer that records a strategy's run under a name.

    >>> from aoi_fl.strategies import RandomSelection
    >>> strategy = RandomSelection(5, observer=record("my-run"))
    """
    return Recording(name, runs_dir)


def trained(share: float, least: int, clients: int) -> int:
    """Return how many clients a Flower strategy trains in a round."""
    return max(1, least, round(share * clients))


@contextmanager
def under(policy: str, clients: int, per_round: int | None, name: str) -> Iterator[list[Recording]]:
    """Let Flower's strategies start under a policy in the block, recorded; yield the recordings of what starts.

    Without ``per_round`` as many clients take part as the strategy trains.
    """
    plain, own, played = Strategy.start, AgeAwareStrategy.start, list[Recording]()

    def start(strategy: Strategy, grid: Any, *given: Any, **more: Any) -> Any:
        share, least = getattr(strategy, "fraction_train", 1.0), getattr(strategy, "min_train_nodes", 1)
        size = per_round or min(clients, trained(share, least, clients))
        made = REGISTRY[policy].make(
            RunConfig.parse({"policy": policy, "num-clients": clients, "clients-per-round": size}).flat(),
            options=RoundOptions(seed=1, deterministic=True),
            weights="auto",
            aggregation=strategy,
        )
        return made.start(grid, *given, **more)

    def observed(strategy: AgeAwareStrategy, *given: Any, **more: Any) -> Any:
        if not isinstance(strategy.observer, Recording):
            strategy.observer = record(name)
        played.append(strategy.observer)
        return own(strategy, *given, **more)

    Strategy.start, AgeAwareStrategy.start = start, observed  # type: ignore[method-assign, assignment]
    try:
        yield played
    finally:
        Strategy.start, AgeAwareStrategy.start = plain, own  # type: ignore[method-assign]
