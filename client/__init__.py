"""The client half of the round protocol. ``from aoi_fl.client import ClientApp`` in place of Flower's."""

from aoi_fl.client.envelope import ask_of
from aoi_fl.client.participation import ClientApp, attach

__all__ = ["ClientApp", "ask_of", "attach"]
