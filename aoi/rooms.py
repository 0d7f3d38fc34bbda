"""A guard against foreign modules that take the names of our root packages."""

import importlib.util
from pathlib import Path

_ROOMS = ("aoi", "client", "strategies")


def check_rooms(file: str) -> None:
    """Raise ImportError if a room that a foreign app needs would be imported from somewhere else than its siblings.

    A room that is nowhere to be found hides nothing: an edge device carries no ``strategies``.

    Parameters
    ----------
    file : ``__file__`` of the ``__init__`` of a room of ours
    """
    home = Path(file).resolve().parent.parent
    for room in _ROOMS:
        spec = importlib.util.find_spec(room)
        if spec is None:
            continue
        origin = None if spec.origin is None else Path(spec.origin).resolve()
        if origin != home / room / "__init__.py":
            raise ImportError(
                f"AoI-FL's package {room!r} is hidden by another module of that name, {origin or 'a folder'}: AoI-FL "
                f"itself lies in {home}. Rename that module or folder in your app."
            )
