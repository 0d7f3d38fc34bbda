"""A ledger for any ServerApp: one line, then ``aoi report`` and ``aoi serve`` show the run."""

import re
import shlex
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord

from aoi_fl.science.errors import NAMES, ConfigError, StorageError
from aoi_fl.server.folder import LEDGER, make_run_folder, only_player
from aoi_fl.server.ledger import Ledger, ending
from aoi_fl.server.logs import tell
from aoi_fl.server.observe import Recorder
from aoi_fl.strategies.records import ClientRecord, RoundRecord, State

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Recording:
    """An observer that writes the ledger of one run, ``runs-dir/name/ledger.sqlite``, and keeps no model.

    The strategy's ``start`` begins and ends it, so that the run is completed, stopped or failed as it really was. Where
    something else drives the strategy (a wrapper of Flower's, somebody's own ``start``), it begins with the first
    client, and a ``with`` block around it says how it ends; without one the run counts as interrupted once nobody
    holds the recording.

    Parameters
    ----------
    name : the run's
    runs_dir : where the folders of runs lie

    Raises
    ------
    ConfigError
        The name is none for a folder.
    """

    def __init__(self, name: str, runs_dir: str | Path = "runs") -> None:
        if not _NAME.fullmatch(name):
            raise ConfigError("run-name", name, NAMES, "Choose another name.")
        self.folder = Path(runs_dir) / name
        self._held = ExitStack()
        self._open: tuple[Ledger, Recorder] | None = None
        self._outside = False

    def __enter__(self) -> "Recording":
        self._outside = True
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._end(None, error)

    def run_begins(self, policy: dict[str, Any], rounds: int) -> None:
        """Make the folder and the ledger, and hold them until the end.

        Raises
        ------
        ConfigError, ResumeError
            They cannot be written, or there is such a run already.
        """
        self._begin(policy, rounds)

    def _begin(self, policy: dict[str, Any], rounds: int | None) -> tuple[Ledger, Recorder]:
        self._held.enter_context(only_player(self.folder))
        make_run_folder(self.folder)
        ledger = Ledger(self.folder / LEDGER)
        self._held.callback(ledger.close)
        config = {} if rounds is None else {"num-server-rounds": rounds}
        ledger.note(run=self.folder.name, config=config, status="running", policy=policy)
        self._open = ledger, Recorder(self.folder.name, ledger, None, rounds)
        return self._open

    def run_ends(self, stopped: str | None, error: BaseException | None) -> None:
        """Note how the run ended; within a ``with`` block, its end does."""
        if error is not None or stopped or not self._outside:
            self._end(stopped, error)

    def _end(self, stopped: str | None, error: BaseException | None) -> None:
        if self._open is None:
            return
        ledger, _ = self._open
        self._open = None
        with self._held, suppress(StorageError):  # what is wrong with the disk is told already
            ledger.note(**ending(stopped, error))
        folder = self.folder.absolute()  # under Flower's local SuperLink, where that was first started
        tell(f"recorded in {folder}: aoi report {shlex.quote(str(folder))}")

    def clients_seen(self, clients: list[ClientRecord]) -> None:
        """Write the clients down."""
        self._now().clients_seen(clients)

    def round_done(self, record: RoundRecord, arrays: ArrayRecord, memory: State) -> None:
        """Write the round down and print its line."""
        self._now().round_done(record, arrays, memory)

    def _now(self) -> Recorder:
        return (self._open or self._begin({}, None))[1]


def record(name: str, runs_dir: str | Path = "runs") -> Recording:
    """Return an observer that records a strategy's run under a name.

    >>> from aoi_fl.strategies import RandomSelection
    >>> strategy = RandomSelection(5, observer=record("my-run"))
    """
    return Recording(name, runs_dir)
