"""A run's folder: its path, its lock and its files."""

import fcntl
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from aoi_fl.protocol import CLIENTS_FILE, PARTITION_FILE
from aoi_fl.protocol.files import MOST_TEXT, read_regular, regular, try_writing, write_whole
from aoi_fl.science.errors import ConfigError, ResumeError, StorageError
from aoi_fl.server.ledger import make_room, read

LEDGER, MODEL, _LOCK = "ledger.sqlite", "model.safetensors", ".lock"
RATES_FILE = "rates.csv"  # each client's own rate at the run's start
NOISE_KEY = "noise.key"  # the secret of a private run's noise, readable for its owner only
NOISE_RELEASE = "noise.release"  # the last sum with noise, which lies beside it
CHECKPOINTS, STATES = "checkpoints", "clients"  # folders of the server and of the simulated clients
DEALT = Path("/dealt")  # in a cluster, the folder with what clients read of the current run
_PATIENCE = 15.0  # seconds for the processes of a killed run to end


@contextmanager
def run_folder(runs: Path, name: str, policy: str, dataset: str) -> Iterator[Path]:
    """Yield a run's folder; without a name, make a new one from policy, data set and time.

    A new folder is removed if the block fails while the folder is empty.
    """
    if name:
        yield runs / name
        return
    alone = False
    with suppress(OSError):
        alone = not runs.exists()
    stem = f"{policy.rpartition(':')[2]}-{dataset.split(':')[0]}-{time.strftime('%Y%m%d-%H%M%S')}"
    for folder in numbered(runs / stem):
        with writing(runs), suppress(FileExistsError):  # of a run that starts in the same second
            folder.mkdir()
            break
    try:
        yield folder
    except BaseException:
        with suppress(OSError):
            folder.rmdir()
            if alone:
                runs.rmdir()
        raise


def numbered(folder: Path) -> Iterator[Path]:
    """Yield a folder, then without end others with a number from 2 after its name."""
    yield folder
    for number in count(2):
        yield folder.with_name(f"{folder.name}-{number}")


def make_run_folder(folder: Path) -> None:
    """Make a new run's folder and check that it can be written.

    Raises
    ------
    ConfigError : the folder cannot be made or written.
    ResumeError : the folder has a round of a run, or a ledger that cannot be read. A recorded round is never
        overwritten.
    """
    models = (folder / CHECKPOINTS).glob("model-*.safetensors")  # that of round 1 may be of an interrupted round
    lost = (folder / MODEL).exists() or any(path.stem != "model-1" for path in models)  # its ledger
    if lost or has_rounds(folder / LEDGER):
        raise ResumeError(
            f"run-name is {folder.name!r}, and {folder} already holds a run. Choose another run-name, or delete that "
            "folder if the run is no longer wanted."
        )
    with writing(folder):
        dealt = [folder / name for name in (PARTITION_FILE, CLIENTS_FILE, RATES_FILE, NOISE_KEY, NOISE_RELEASE)]
        for leftover in (*folder.glob(f"{LEDGER}*"), *dealt):
            leftover.unlink(missing_ok=True)  # of a run that ended before its first round
        if (folder / STATES).exists():  # the clients' states of that run, perhaps of another seed
            shutil.rmtree(folder / STATES)
        try_writing(folder)


def deal(folder: Path, to: Path = DEALT) -> None:
    """Copy what clients read of a run, where a cluster has a folder for it: they see no other file of the run."""
    if not to.is_dir():
        return
    with writing(to, "dealt"):
        for name in (PARTITION_FILE, CLIENTS_FILE):
            if (folder / name).exists():
                keep(to / name, read_regular(folder / name, MOST_TEXT))
            else:
                (to / name).unlink(missing_ok=True)


def has_rounds(ledger: Path) -> bool:
    """Return whether a ledger has a round; an interrupted start may leave it without tables."""
    try:
        return ledger.exists() and bool(read(ledger, "rounds"))
    except sqlite3.DatabaseError as error:
        if "no such table" in str(error):
            return False
        raise ResumeError(
            f"run-name is {ledger.parent.name!r}, and {ledger} cannot be read: {error}. Choose another run-name, or "
            "delete that folder if the run is no longer wanted."
        ) from error


@contextmanager
def only_player(folder: Path) -> Iterator[None]:
    """Lock a run's folder for the length of the block; the lock ends with the process.

    Raises
    ------
    ConfigError : the folder cannot be made or written.
    ResumeError : another process holds the run.
    """
    deadline = time.monotonic() + _PATIENCE
    with writing(folder):
        lock = open(folder / _LOCK, "ab", opener=regular)  # noqa: SIM115, closed below
    with lock as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ResumeError(
                        f"another process is running {folder}. Wait for its end, or stop it first."
                    ) from None
                time.sleep(0.1)
            except OSError:  # the file system has no locks
                break
        yield


def is_played(folder: Path) -> bool | None:
    """Return whether a process of any user or container holds a run's folder; None if unknown."""
    try:
        with open(folder / _LOCK, "rb", opener=regular) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared with other readers, and released at once
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    except OSError:  # the file system has no locks, or the file belongs to another user
        return None
    return False


@contextmanager
def writing(folder: Path, key: str = "runs-dir") -> Iterator[None]:
    """Make a key's folder; raise ConfigError if it, or a file in the block, cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            key, folder, f"a folder that you can write ({why})", f"Set {key} to another folder."
        ) from error


def keep(path: Path, blob: bytes) -> None:
    """Write a file atomically.

    Raises
    ------
    StorageError : the file cannot be written; no temporary file is left.
    """
    try:
        write_whole(path, blob)
    except OSError as error:
        run = path.parent.parent if path.parent.name == CHECKPOINTS else path.parent
        raise StorageError(
            f"{path} cannot be written: {error.strerror}. What was complete before is kept. {make_room(run)}"
        ) from error
