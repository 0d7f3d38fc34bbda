"""Ask a SuperLink whether it knows a client's key, and how far apart the clocks are.

A signed request for a node that cannot exist tells, by how it is refused, whether the signature's time was accepted:
nothing changes by it. Whether the key is registered only an activation tells, so that is done as at a client's start,
and taken back.
"""

from dataclasses import dataclass

import grpc
from cryptography.hazmat.primitives.asymmetric import ec

from aoi_fl.flower.fleet import AHEAD, BEHIND, FleetApi

_PRECISION = 0.5  # seconds


@dataclass(frozen=True)
class RegistrationStatus:
    """The answer of a SuperLink about a key.

    Attributes
    ----------
    authenticates : whether the SuperLink asks for keys at all
    skew : seconds that this device's clock is ahead of the SuperLink's, to half a second; None if it refuses the
        time of the signature, or asks for none
    registered : whether the key can connect now; None if that was not found out
    problem : what the SuperLink, or gRPC, said where nothing more can be found out
    """

    authenticates: bool
    skew: float | None = None
    registered: bool | None = None
    problem: str = ""


def standing(host: str, port: int, ca: bytes, key: ec.EllipticCurvePrivateKey) -> RegistrationStatus:
    """Return how a SuperLink's Fleet API takes to a client's key.

    Parameters
    ----------
    host, port : of the Fleet API
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
    """Return with what words a heartbeat whose signature's time is shifted is refused; empty if it is not."""
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
    """Return by how much this clock is ahead: so much earlier than by its tolerance the SuperLink refuses the time."""
    accepted, refused = 0.0, AHEAD + BEHIND
    while refused - accepted > _PRECISION:
        middle = (accepted + refused) / 2
        if _accepts(fleet, middle):
            accepted = middle
        else:
            refused = middle
    return AHEAD - (accepted + refused) / 2


def _connects(fleet: FleetApi) -> bool:
    """Connect and leave; False if the SuperLink does not let this key in, or not now."""
    try:
        node = fleet.activate()
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
            return False
        raise
    fleet.deactivate(node)
    return True
