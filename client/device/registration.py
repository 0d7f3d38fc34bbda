"""Check whether a SuperLink knows a client's key, and measure the difference of the clocks.

The SuperLink refuses a signed request for a node that cannot exist. Its error shows whether it accepted the signature's
time, and the request changes nothing. Only an activation shows whether the key is registered. So the check activates
the client, as at its start, and deactivates it again.
"""

from dataclasses import dataclass

import grpc
from cryptography.hazmat.primitives.asymmetric import ec

from aoi_fl.flower.fleet import AHEAD, BEHIND, FleetApi

_PRECISION = 0.5  # seconds


@dataclass(frozen=True)
class RegistrationStatus:
    """The standing of a client's key at a SuperLink.

    Attributes
    ----------
    authenticates : whether the SuperLink requires keys at all
    skew : seconds by which this device's clock is ahead of the SuperLink's, to half a second; None if the SuperLink
        refuses the signature's time or requires no signature
    registered : whether the key can connect now; None if unknown
    problem : the error of the SuperLink or gRPC that prevented further checks
    """

    authenticates: bool
    skew: float | None = None
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
    with grpc.secure_channel(target, grpc.ssl_channel_credentials(ca)) as channel:
        fleet = FleetApi(channel, key)
        try:
            if not _refused(fleet, None):
                return RegistrationStatus(False)
            if not _accepts(fleet, 0.0):
                return RegistrationStatus(True)
            skew = _skew(fleet)
            return RegistrationStatus(True, skew, _connects(fleet))
        except grpc.RpcError as error:
            return RegistrationStatus(True, problem=f"{error.code().name}: {error.details()}")


def _refused(fleet: FleetApi, shift: float | None) -> str:
    """Return the refusal of a heartbeat with a shifted signature time, or ``""``."""
    try:
        fleet.heartbeat(shift)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            return str(error.details())
        raise
    return ""


def _accepts(fleet: FleetApi, shift: float) -> bool:
    return "timestamp" not in _refused(fleet, shift)


def _skew(fleet: FleetApi) -> float:
    """Return the seconds by which this clock is ahead, from the shifts that are refused."""
    accepted, refused = 0.0, AHEAD + BEHIND
    while refused - accepted > _PRECISION:
        middle = (accepted + refused) / 2
        if _accepts(fleet, middle):
            accepted = middle
        else:
            refused = middle
    return AHEAD - (accepted + refused) / 2


def _connects(fleet: FleetApi) -> bool:
    """Connect and disconnect; return False if the SuperLink refuses this key now."""
    try:
        node = fleet.activate()
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
            return False
        raise
    fleet.deactivate(node)
    return True
