"""Move a client to another device: its key, configuration, data and state, in one file.

The former device cannot run the client afterwards, because two clients with one state would take part twice as often.
"""

import os
import tarfile
from contextlib import ExitStack
from pathlib import Path
from shutil import rmtree

from aoi_fl.client.device.enroll import KEY, NODE, read_node
from aoi_fl.client.session import FILE
from aoi_fl.client.state import lock
from aoi_fl.protocol.files import extract, read_regular, regular, write_whole
from aoi_fl.science.errors import ConfigError, refusing

MOVED = f"{KEY}.moved"


def pack(folder: Path, archive: Path) -> None:
    """Write a client's folder and state to a new file, and set its key aside.

    Raises
    ------
    ConfigError : the folder is not a client's or has no key, the client runs, or a file cannot be read or written.
    """
    folder = folder.absolute()
    state = Path(str(read_node(folder)["state-dir"]))
    if not (folder / KEY).is_file():
        raise ConfigError("--dir", folder, f"a client with {KEY}", f"If it has moved, it has {MOVED} instead.")
    remedy = "Choose a new file, and run this as root or as the account of the client."
    with refusing(OSError, "archive", archive, "a new file, and a readable client", remedy):
        _check_ended(state)
        handle = os.open(archive, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as tar:
            tar.add(folder, "client", filter=lambda member: None if member.name == f"client/{archive.name}" else member)
            if state.exists():
                tar.add(state, "state")
        (folder / KEY).replace(folder / MOVED)


def unpack(archive: Path, folder: Path) -> tuple[Path, ...]:
    """Unpack a client on its new device, and return the units to install.

    Raises
    ------
    ConfigError : the file is not a client's, or the folder or the client's state exists already.
    """
    folder, errors = folder.absolute(), (OSError, ValueError, tarfile.TarError, EOFError)
    remedy = "Copy the file again, and run this as root where the state belongs to a service."
    with refusing(errors, "archive", archive, "a client's file from aoi device move", remedy):
        if folder.exists() and any(folder.iterdir()):
            raise ConfigError("--dir", folder, "a new folder", "Choose another --dir.")
        with ExitStack() as undo, open(archive, "rb", opener=regular) as file, tarfile.open(fileobj=file) as tar:
            undo.callback(rmtree, folder, ignore_errors=True)  # a key without its state must not remain
            members = {top: [m for m in tar if m.name.split("/")[0] == top] for top in ("client", "state")}
            _extract(tar, members["client"], folder)
            state = Path(str(read_node(folder)["state-dir"]))
            if members["state"]:
                if state.exists() and any(state.iterdir()):
                    raise ConfigError("state-dir", state, "empty on this device", "Move that client away first.")
                _extract(tar, members["state"], state)
                (state / FILE).unlink(missing_ok=True)  # the former device's session
            undo.pop_all()
        former = _former_folder(folder)
        if former is not None and former != folder:
            for path in (folder / NODE, *folder.glob("aoi-*.service")):
                text = read_regular(path).decode().replace(f"{former}/", f"{folder}/")
                write_whole(path, text.encode(), path.stat().st_mode & 0o777)
    return tuple(sorted((*folder.glob("aoi-*.service"), *folder.glob("aoi-*.timer"))))


def _extract(tar: tarfile.TarFile, members: list[tarfile.TarInfo], target: Path) -> None:
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for member in members:
        tail = member.name.partition("/")[2]
        if tail:
            member.name = tail
            extract(tar, member, target)


def _former_folder(folder: Path) -> Path | None:
    """Return the client's folder on its former device, which its unit names."""
    for unit in folder.glob("aoi-*.service"):
        for line in read_regular(unit).decode().splitlines():
            if line.startswith("EnvironmentFile="):
                return Path(line.partition("=")[2]).parent
    return None


def _check_ended(state: Path) -> None:
    """Raise ConfigError if the client's SuperNode runs, by the lock on its session."""
    try:
        if (state / FILE).exists():
            lock(state / FILE, 0.0).close()
    except BlockingIOError:
        raise ConfigError("--dir", state, "a client that has ended", "Stop its service first.") from None
