"""The import name of AoI-FL: its version, where its rooms lie, and the two apps by the names that Flower starts.

In a wheel the rooms (``aoi_fl.strategies``, ``aoi_fl.client``, …) lie in this folder. In a checkout, and in the bundle
that Flower makes of one, this file is alone here and they are folders beside this one.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp

__all__ = ["client_app", "server_app"]
__version__ = "0.3.0"

_here = Path(__file__).resolve().parent
if not (_here / "science").is_dir():
    __path__.insert(0, str(_here.parent))


def __getattr__(name: str) -> "ClientApp | ServerApp":
    """Import an app when it is asked for.

    Flower's simulation looks for the ClientApp while another thread imports the ServerApp. Its look takes no lock, and
    imports whatever the app's module lies in: with ``aoi_fl.client.app:app`` it met this module half imported, without
    its rooms. Here, it looks at this file alone; and it imports under a lock, one app after the other.
    """
    if name == "client_app":
        from aoi_fl.client.app import app as client_app

        return client_app
    if name == "server_app":
        from aoi_fl.server.app import app as server_app

        return server_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
