"""Write files atomically; in this room, because every other room may import it."""

import errno
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from aoi_fl.protocol.log import logger
from aoi_fl.science.errors import ConfigError

if TYPE_CHECKING:
    import tarfile

MOST_BYTES = 1 << 24  # of a file of settings or states
MOST_TEXT = 1 << 30  # bytes of a user's table of clients or rates


def write_whole(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write a file atomically: after any failure either the old or the new content is complete.

    A missing folder is created. A file has one writer at a time.

    Parameters
    ----------
    path, content : path and content of the file
    mode : permissions from the first byte on; by default as the umask sets them

    Raises
    ------
    OSError : the file cannot be written, or is a folder, a pipe or a device; no temporary file is left.
    """
    aside = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        aside.unlink(missing_ok=True)  # left by a killed writer
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


def digest(paths: Sequence[Path]) -> str:
    """Return the SHA-256 of the concatenated files; "" without files.

    A file is read again when its size, its times or its place on the disk have changed.
    """
    stats = [(path, path.stat()) for path in paths]
    return _digest(tuple((p, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for p, s in stats)) if stats else ""


@lru_cache(maxsize=64)
def _digest(files: tuple[tuple[Path, int, int, int, int], ...]) -> str:
    hasher = hashlib.sha256()
    for path, *_ in files:
        with open(path, "rb", opener=regular) as file:
            hashlib.file_digest(file, lambda: hasher)
    return hasher.hexdigest()


def present_digest(paths: Sequence[Path]) -> str:
    """Return the digest of files; "" if there is none, or one of them is no file or cannot be read."""
    with suppress(OSError, ValueError):
        return digest(paths)
    return ""


def is_file(path: Path) -> bool:
    """Return whether there is a regular file, also for a path that the system does not take."""
    with suppress(OSError, ValueError):
        return path.is_file()
    return False


def absolute(path: Path | str) -> Path:
    """Return a user's path from the root; a ``~`` without a home stays."""
    path = Path(path)
    with suppress(RuntimeError):
        path = path.expanduser()
    return path.absolute()


def read_regular(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file; never wait for a pipe or a device.

    Raises
    ------
    OSError : the file is missing, unreadable, longer than ``most`` bytes, or not a regular file.
    """
    with open(path, "rb", opener=regular) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"longer than {most} bytes", str(path))
        return file.read()


def regular(path: Path | str, flags: int, mode: int = 0o666) -> int:
    """Open a regular file; an ``opener`` of :func:`open` that never waits for a pipe or a device.

    Raises
    ------
    OSError : the file is missing, unreadable, or not a regular file.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK, mode)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def check_regular(path: Path) -> None:
    """Raise OSError if a path is missing or is not a regular file, without opening it."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def read_text(path: Path | str) -> str:
    """Return the text of a user's file in UTF-8; raise OSError as :func:`read_regular`, or UnicodeDecodeError."""
    return read_regular(Path(path), MOST_TEXT).decode("utf-8-sig")


def try_writing(folder: Path) -> None:
    """Raise OSError if a folder is not writable or its disk is full; leave no file."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"0")


def discard(path: Path) -> None:
    """Remove a file that is needed no longer; log a line if it stays, and go on."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("%s is needed no longer, but it cannot be removed (%s). Remove it.", path, error.strerror)


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def extract(tar: "tarfile.TarFile", member: "tarfile.TarInfo", folder: Path) -> None:
    """Extract a file, a folder or a link; nothing leaves ``folder`` (Python 3.11.4 has it as ``filter="data"``).

    Raises
    ------
    ValueError : the member, or what it links to, lies outside the folder, or is of another kind.
    """
    path, inside = folder / member.name, folder.resolve()
    if not path.parent.resolve().is_relative_to(inside) or path.name in ("", ".."):
        raise ValueError(f"{member.name} leaves its folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    if member.isdir():
        path.mkdir(exist_ok=True)
    elif member.issym():
        if not (path.parent / member.linkname).resolve().is_relative_to(inside):
            raise ValueError(f"{member.name} links to {member.linkname}, which leaves its folder")
        path.symlink_to(member.linkname)
        return
    elif (source := tar.extractfile(member)) is not None and member.isfile():
        with source, open(path, "xb") as target:
            shutil.copyfileobj(source, target)
    else:
        raise ValueError(f"{member.name} is no file")
    path.chmod(member.mode & 0o777)


def save(path: Path, blob: bytes, key: str = "--output") -> None:
    """Write a file that the user named; an error names it by a key.

    Raises
    ------
    ConfigError : the file cannot be written.
    """
    try:
        write_whole(path, blob)
    except OSError as error:
        allowed = f"a file that you can write ({error.strerror})"
        raise ConfigError(key, path, allowed, "Make room there, or choose another file.") from error
