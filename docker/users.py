"""Users of a cluster's containers: one of the image, and one for each slot, so that no client reads another's files.

The container of a client begins as root without rights over files. It may change its user, and give files away. It
takes its slot, becomes the slot's user for good, and only then runs the SuperNode and the app.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

APP = 49999  # the image's, to which the shared volumes belong
_FIRST = 50_000


def user_of(slot: int, apart: bool) -> int | None:
    """Return the user of a slot; None where all slots have the container's."""
    return _FIRST + slot if apart else None


@contextmanager
def acting_as(user: int | None) -> Iterator[None]:
    """Have a user's rights over files, and no others; None changes nothing."""
    if user is None:
        yield
        return
    before = os.geteuid()
    _act(user)
    try:
        yield
    finally:
        _act(before)


def _act(user: int) -> None:
    os.seteuid(0)
    os.setegid(user)
    os.seteuid(user)


def hand_over(folder: Path, user: int | None) -> None:
    """Give a folder and all in it to a user alone; the folder is last, so that a break is made good."""
    owner = folder.stat().st_uid
    if user is None or owner == user:
        return
    with acting_as(owner):
        folder.chmod(0o711)
        paths = [path for path in folder.rglob("*") if path.lstat().st_uid == owner]
        for path in paths:
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o711)
    for path in [*reversed(paths), folder]:
        os.chown(path, user, user, follow_symlinks=False)
    with acting_as(user):
        folder.chmod(0o700)


def become(user: int | None) -> None:
    """Be a user from now on, with a home folder in this container; None changes nothing."""
    if user is None:
        return
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    home = f"/tmp/{user}"
    os.makedirs(home, 0o700, exist_ok=True)
    os.environ.update(HOME=home, FLWR_HOME=f"{home}/flwr", USER=str(user))
