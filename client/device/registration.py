"""Check whether a SuperLink accepts a device's clock, and knows its key.

Only an activation shows whether the key is registered. So the check activates the client, as at its start, and
deactivates it again. Its error shows whether the SuperLink accepted the signature's time.
"""

from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

import grpc
from cryptography.hazmat.primitives.asymmetric import ec

from aoi_fl.flower.fleet import FleetApi, HttpFleetApi
from aoi_fl.flower.seams import FLEET

_UNAUTHENTICATED, _SERVER_ERROR = 401, 500  # statuses of HTTP


@dataclass(frozen=True)
class RegistrationStatus:
    """The standing of a client's key at a SuperLink.

    Attributes
    ----------
    authenticates : whether the SuperLink requires keys at all
    in_time : whether the SuperLink accepts the time of a signature
    registered : whether the key can connect now; None if unknown
    problem : the error of the SuperLink or gRPC that prevented further checks
    """

    authenticates: bool
    in_time: bool = False
    registered: bool | None = None
    problem: str = ""


def standing(host: str, port: int, ca: bytes, key: ec.EllipticCurvePrivateKey) -> RegistrationStatus:
    """Return the standing of a client's key at a SuperLink.

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
            if not _asks_for_keys(fleet):
                return RegistrationStatus(False)
            fleet.deactivate(fleet.activate())
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                return RegistrationStatus(True)
            if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                return RegistrationStatus(True, True, False)
            return RegistrationStatus(True, problem=f"{error.code().name}: {error.details()}")
    return RegistrationStatus(True, True, True)


def _standing_over_http(target: str, ca: bytes, key: ec.EllipticCurvePrivateKey) -> RegistrationStatus:
    """Return the standing over HTTP, where each call is signed."""
    with NamedTemporaryFile() as authority:
        Path(authority.name).write_bytes(ca)
        fleet = HttpFleetApi(target, Path(authority.name), key)
        try:
            fleet.deactivate(fleet.activate())
        except ConnectionError as error:
            status = getattr(getattr(error.__cause__, "response", None), "status_code", None)
            if status == _UNAUTHENTICATED:
                return RegistrationStatus(True)
            if status is not None and status < _SERVER_ERROR:
                return RegistrationStatus(True, True, False)
            return RegistrationStatus(True, problem=str(error))
    return RegistrationStatus(True, True, True)


def _asks_for_keys(fleet: FleetApi) -> bool:
    try:
        fleet.stay(0, signed=False)  # a node that does not exist
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            return True
        raise
    return False
