"""The folder of a run: where it is, and that it can be written before anything starts."""

import time
from pathlib import Path

from aoi.errors import ConfigError, ResumeError

LEDGER, MODEL, PARTITION = "ledger.sqlite", "model.safetensors", "partition.npy"


def default_name(policy: str, dataset: str) -> str:
    """Return a name for a run that was given none: policy, data set and time."""
    return f"{policy}-{dataset.split(':')[0]}-{time.strftime('%Y%m%d-%H%M%S')}"


def make_run_folder(folder: Path) -> None:
    """Make the folder of a new run, and see that it can be written.

    Raises
    ------
    ConfigError
        The folder cannot be made or written.
    ResumeError
        A run is already there; nothing recorded is ever overwritten.
    """
    if (folder / LEDGER).exists():
        raise ResumeError(
            f"run-name is {folder.name!r}, and {folder} already holds a run. Choose another run-name, or delete that "
            "folder if the run is no longer wanted."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".probe"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise ConfigError(
            f"the run's folder {folder} cannot be written: {error.strerror}. Set runs-dir to a folder you can write."
        ) from error
