"""Writing a file whole or not at all; here, since every other room may import it."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write a file so that, whatever happens, either the old one or all of the new one is found afterwards.

    Its folder is made where it is missing. A file has one writer at a time.

    Parameters
    ----------
    path, content : of the file
    mode : its permissions, from the first byte on; by default what the umask leaves

    Raises
    ------
    OSError : it cannot be written; no part of it is left behind.
    """
    aside = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.unlink(missing_ok=True)  # of a writer that was killed
        first = 0o666 if mode is None else 0o600
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, first), "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
        sync(path.parent)
    except BaseException:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise


def try_writing(folder: Path) -> None:
    """Raise OSError where no file can be made in a folder, or it has no room; nothing is left behind."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"0")


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk; it need not be open for writing."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
