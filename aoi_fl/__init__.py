"""The import name of AoI-FL: its version, where its rooms lie, its Python interface, and Flower's two apps.

``aoi_fl.run(policy=…, **keys)`` runs a federation and ``aoi_fl.load(name)`` loads a recorded one; both return a ``Run``
with the tables ``rounds``, ``participations`` and ``clients``. ``aoi_fl.compare(policies, **keys)`` returns the
conclusions of a comparison as a DataFrame (:mod:`aoi_fl.api`).

In a wheel the rooms (``aoi_fl.strategies``, ``aoi_fl.client``, …) lie in this folder. In a checkout, and in the bundle
that Flower makes of one, this file is alone here and they are folders beside this one.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aoi_fl.api import Run, compare, load, run

__all__ = ["Run", "client_app", "compare", "load", "run", "server_app"]
__version__ = "0.3.0"

_here = Path(__file__).resolve().parent
if not (_here / "science").is_dir():
    __path__.insert(0, str(_here.parent))


def __getattr__(name: str) -> Any:
    """Import an app, or the Python interface, when it is asked for.

    Flower's simulation looks for the ClientApp while another thread imports the ServerApp. Its look takes no lock, and
    imports whatever the app's module lies in: with ``aoi_fl.learning.client_app:app`` it met this module half imported,
    without its rooms. Here, it looks at this file alone; and it imports under a lock, one app after the other.
    """
    if name == "client_app":
        from aoi_fl.learning.client_app import app as client_app

        return client_app
    if name == "server_app":
        from aoi_fl.server.app import app as server_app

        return server_app
    if name in ("Run", "compare", "load", "run"):
        from aoi_fl import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
