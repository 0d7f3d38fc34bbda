"""The client half of the round protocol. ``from client import ClientApp`` in place of Flower's."""

try:
    from aoi.rooms import check_rooms
except ModuleNotFoundError as error:
    raise ImportError(
        "AoI-FL's package 'aoi' is hidden by another module of that name. Rename that module or folder in your app."
    ) from error

check_rooms(__file__)

from client.participation import ClientApp  # noqa: E402

__all__ = ["ClientApp"]
