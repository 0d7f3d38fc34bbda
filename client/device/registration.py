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
    if FLEET.there:
        with grpc.secure_channel(target, grpc.ssl_channel_credentials(ca)) as channel:
            return _tried(FleetApi(channel, key))
    with NamedTemporaryFile() as authority:
        Path(authority.name).write_bytes(ca)
        return _tried(HttpFleetApi(target, Path(authority.name), key))


def _tried(fleet: FleetApi) -> str:
    """Return the standing by an activation; over HTTP each call is signed, and has a status."""
    try:
        fleet.deactivate(fleet.activate())
    except grpc.RpcError as error:
        refused = {grpc.StatusCode.UNAUTHENTICATED: CLOCK, grpc.StatusCode.FAILED_PRECONDITION: KEY}
        return refused.get(error.code(), f"{error.code().name}: {error.details()}")
    except ConnectionError as error:
        status = getattr(getattr(error.__cause__, "response", None), "status_code", None)
        if status == _UNAUTHENTICATED:
            return CLOCK
        return KEY if status is not None and status < _SERVER_ERROR else str(error)
    return ""
