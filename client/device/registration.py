"""Check whether a SuperLink accepts a device's clock, and knows its key.

Only an activation shows whether the key is registered. So the check activates the client, as at its start, and
deactivates it again. Its error shows whether the SuperLink accepted the signature's time.
"""

from pathlib import Path
from tempfile import NamedTemporaryFile

import grpc
from cryptography.hazmat.primitives.asymmetric import ec

from aoi_fl.flower.fleet import FleetApi, HttpFleetApi
from aoi_fl.flower.seams import FLEET

_UNAUTHENTICATED, _SERVER_ERROR = 401, 500  # statuses of HTTP
CLOCK, KEY = "clock", "key"  # what a SuperLink refuses


def standing(host: str, port: int, ca: bytes, key: ec.EllipticCurvePrivateKey) -> str:
    """Return "" if a SuperLink lets a client in, :data:`CLOCK` or :data:`KEY` if it refuses that, or its error.

    Parameters
    ----------
    host, port : address of the Fleet API
    ca : the authority's certificate, PEM
    key : the client's private key
    """
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if not FLEET.there:
        return _standing_over_http(target, ca, key)
    with grpc.secure_channel(target, grpc.ssl_channel_credentials(ca)) as channel:
        fleet = FleetApi(channel, key)
        try:
            fleet.deactivate(fleet.activate())
        except grpc.RpcError as error:
            refused = {grpc.StatusCode.UNAUTHENTICATED: CLOCK, grpc.StatusCode.FAILED_PRECONDITION: KEY}
            return refused.get(error.code(), f"{error.code().name}: {error.details()}")
    return ""


def _standing_over_http(target: str, ca: bytes, key: ec.EllipticCurvePrivateKey) -> str:
    """Return the standing over HTTP, where each call is signed."""
    with NamedTemporaryFile() as authority:
        Path(authority.name).write_bytes(ca)
        fleet = HttpFleetApi(target, Path(authority.name), key)
        try:
            fleet.deactivate(fleet.activate())
        except ConnectionError as error:
            status = getattr(getattr(error.__cause__, "response", None), "status_code", None)
            if status == _UNAUTHENTICATED:
                return CLOCK
            return KEY if status is not None and status < _SERVER_ERROR else str(error)
    return ""
