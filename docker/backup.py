"""Copy a cluster's volumes into one file, and back into empty volumes.

The commands are ``docker compose run --rm -T backup save > FILE`` and ``... restore < FILE``. SQLite itself copies the
databases. The volume of data sets is left out.
"""

import fcntl
import io
import json
import os
import shutil
import sqlite3
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

from aoi_fl.docker.users import APP, acting_as
from aoi_fl.protocol.files import extract
from aoi_fl.science.errors import AoiError, ConfigError, shortened
from aoi_fl.server.folder import LEDGER, is_played

VOLUMES = (
    "pki/authority",
    "pki/trust",
    "pki/server",
    "pki/superexec",
    "state",
    "clients",
    "enrolment",
    "operator",
    "runs",
)
FIRST, LAST = "aoi-backup", "aoi-backup-end"  # entries: the list of volumes, and the number of files
_CLIENTS = "clients"
_SQLITE = b"SQLite format 3\0"
_BESIDE = ("-wal", "-shm", "-journal")  # SQLite's copy contains them


def save(out: BinaryIO, root: Path = Path("/"), reader: int | None = None) -> None:
    """Write all volumes to a file; ``reader`` is the user that may read the files of each client's user.

    Raises
    ------
    ConfigError : a client or a run is in progress, because their states must belong together.
    """
    if busy := next(_busy(root, reader), None):
        raise ConfigError("cluster", busy, "stopped", "End it first: docker compose down")
    count = 0
    with tarfile.open(fileobj=out, mode="w|gz") as tar, tempfile.TemporaryDirectory() as aside:
        _note(tar, FIRST, list(VOLUMES))
        for volume in VOLUMES:
            with acting_as(reader if volume == _CLIENTS else None):
                count += _add(tar, root, root / volume, Path(aside) / "copy")
        _note(tar, LAST, count)


def _add(tar: tarfile.TarFile, root: Path, volume: Path, aside: Path) -> int:
    """Add a volume's files; return their number."""
    count = 0
    for path in sorted(volume.rglob("*")):
        name, copy = str(path.relative_to(root)), path
        if path.is_symlink():
            if path.readlink().is_absolute():
                continue  # a client links its share of data at each start
        elif path.is_file():
            if path.name.endswith(_BESIDE) and _is_database(Path(str(path).rpartition("-")[0])):
                continue
            if _is_database(path):
                copy = aside
                _copy_database(path, copy)
        elif not path.is_dir():
            continue
        tar.add(copy, name, recursive=False)
        count += 1
    return count


def restore(source: BinaryIO, root: Path = Path("/")) -> list[str]:
    """Extract a backup into empty volumes, and return the names of the volumes.

    Raises
    ------
    ConfigError : a volume is not empty, or the file is not a complete backup.
    """
    full = [volume for volume in VOLUMES if (root / volume).exists() and any((root / volume).iterdir())]
    if full:
        remedy = "Restore before the first `up`, or delete what is there: docker compose down --volumes"
        raise ConfigError("volumes", ", ".join(full), "empty", remedy)
    with tempfile.TemporaryFile() as whole:
        shutil.copyfileobj(source, whole)
        whole.seek(0)
        try:
            with tarfile.open(fileobj=whole) as tar:
                members = tar.getmembers()
                inner = members[1:-1]
                names = [members[0].name, members[-1].name] if len(members) > 1 else []
                if names != [FIRST, LAST] or _read(tar, members[-1]) != len(inner):
                    raise ValueError("its end is missing")
                if strange := [m.name for m in inner if not m.name.startswith(tuple(f"{v}/" for v in VOLUMES))]:
                    raise ValueError(f"{strange[0]} is in no volume")
                for member in inner:
                    extract(tar, member, root)
        except (tarfile.TarError, OSError, EOFError, ValueError) as error:
            raise ConfigError("backup", None, f"whole ({error})", "Give a file that `backup save` has made.") from error
    return [volume for volume in VOLUMES if any((root / volume).iterdir())]


def _busy(root: Path, reader: int | None) -> Iterator[str]:
    """Yield the clients and runs that a process holds."""
    with acting_as(reader):
        locks = [open(lock, "rb") for lock in sorted((root / _CLIENTS).glob("*/lock"))]  # noqa: SIM115
    for file in locks:
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                yield f"client {Path(file.name).parent.name} runs"
    for ledger in sorted((root / "runs").glob(f"[!.]*/{LEDGER}")):
        if is_played(ledger.parent):
            yield f"run {ledger.parent.name} is in progress"


def _is_database(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def _copy_database(path: Path, copy: Path) -> None:
    copy.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as db, closing(sqlite3.connect(copy)) as other:
        db.backup(other)
    shutil.copystat(path, copy)


def _note(tar: tarfile.TarFile, name: str, content: object) -> None:
    data = json.dumps(content).encode()
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))


def _read(tar: tarfile.TarFile, member: tarfile.TarInfo) -> object:
    file = tar.extractfile(member)
    return json.loads(file.read()) if file else None


def main() -> None:
    """Save to standard output, or restore from standard input; a user's error ends with status 2."""
    os.umask(0o077)
    command = sys.argv[1] if len(sys.argv) == 2 else ""
    keeper = APP if os.getuid() == 0 else None  # owns the volumes
    try:
        if command == "save":
            if sys.stdout.isatty():
                raise ConfigError("backup", "a terminal", "a file", "docker compose run --rm -T backup save > FILE")
            with acting_as(keeper):
                save(sys.stdout.buffer, reader=keeper and 0)
        elif command == "restore":
            with acting_as(keeper):
                print(f"restored: {', '.join(restore(sys.stdin.buffer))}", flush=True)
        else:
            raise ConfigError("command", command, ("save", "restore"), "Choose one of these.")
    except AoiError as error:
        print(f"aoi: {shortened(str(error))}", file=sys.stderr, flush=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
