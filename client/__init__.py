"""The client half of the round protocol. ``from client import ClientApp`` in place of Flower's."""

from aoi.rooms import check_rooms

check_rooms(__file__)

from client.participation import ClientApp  # noqa: E402

__all__ = ["ClientApp"]
