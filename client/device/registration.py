"""Check whether a SuperLink accepts a device's clock, and knows its key.

Only an activation shows whether the key is registered. So the check activates the client, as at its start, and
deactivates it again. Its error shows whether the SuperLink accepted the signature's time.
"""

from cryptography.hazmat.primitives.asymmetric import ec

from aoi_fl.client.device.reach import Finding
from aoi_fl.flower.calls import CallError
from aoi_fl.flower.fleet import AHEAD, BEHIND, FleetApi


def registration(host: str, port: int, ca: bytes, key: ec.EllipticCurvePrivateKey) -> Finding:
    """Return whether a SuperLink lets a client in, or which of clock and key it refuses.

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
            clock = f"this device's is more than {AHEAD:g} s ahead of the SuperLink's, or {BEHIND:g} s behind it"
            return Finding("clocks", "fail", clock, "Set this device's clock: sudo timedatectl set-ntp true")
        if error.refused:
            found = "the SuperLink did not let this key in: it is not registered, or a client with it is online"
            remedy = "See with: flwr supernode list. If it is not there, register this folder's file .pub."
            return Finding("registration", "fail", found, remedy)
        remedy = "Check that HOST:PORT is the Fleet API of a SuperLink (port 9092 unless changed)."
        return Finding("registration", "fail", f"the SuperLink does not answer as one: {error}", remedy)
    return Finding("registration", "ok", "the SuperLink knows this key and this clock, and let it in")
