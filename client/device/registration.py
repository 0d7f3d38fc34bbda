"""Check whether a SuperLink accepts a device's clock, and knows its key.

Only an activation shows whether the key is registered. So the check activates the client, as at its start, and
deactivates it again. Its error shows whether the SuperLink accepted the signature's time.
"""

from cryptography.hazmat.primitives.asymmetric import ec

from aoi_fl.flower.calls import CallError
from aoi_fl.flower.fleet import FleetApi

CLOCK, KEY = "clock", "key"  # what a SuperLink refuses


def standing(host: str, port: int, ca: bytes, key: ec.EllipticCurvePrivateKey) -> str:
    """Return "" if a SuperLink lets a client in, :data:`CLOCK` or :data:`KEY` if it refuses that, or its error.

    Parameters
    ----------
    host, port : address of the Fleet API
    ca : the authority's certificate, PEM
    key : the client's private key
    """
    fleet = FleetApi(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", ca, key)
    try:
        fleet.deactivate(fleet.activate())
    except CallError as error:
        if error.code == "UNAUTHENTICATED":
            return CLOCK
        return KEY if error.refused else str(error)
    return ""
