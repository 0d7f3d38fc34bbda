"""The client's half of the round protocol: ``ClientApp`` replaces Flower's."""

from aoi_fl.client.envelope import ask_of
from aoi_fl.client.participation import ClientApp, attach

__all__ = ["ClientApp", "ask_of", "attach"]
