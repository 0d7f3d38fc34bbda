"""Diagnose a device as a client, from torch to its registration at the SuperLink."""

from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from aoi_fl.client.device import checks, enroll, reach
from aoi_fl.client.device.reach import Finding
from aoi_fl.protocol.files import read_regular


def examine(folder: Path) -> Iterator[Finding]:
    """Run every check on a folder made by ``aoi enroll``, the last ones over the network."""
    yield from (checks.torch(), *checks.configuration(folder))
    private, finding = checks.client_key(folder / enroll.KEY)
    yield finding
    try:
        words = read_regular(folder / enroll.SUPERLINK).decode().split()
        host, port = reach.split_address(next(w.partition("=")[2] for w in words if w.startswith("SUPERLINK=")))
        ca = read_regular(folder / enroll.CA)
    except (OSError, ValueError, StopIteration) as error:
        remedy = f"Write SUPERLINK=HOST:PORT into {enroll.SUPERLINK}, and copy {enroll.CA} from the operator."
        yield Finding("network", "fail", f"{folder} names no SuperLink: {error}", remedy)
        return
    yield (finding := reach.tcp(host, port))
    if finding.status == "fail":
        return
    yield (finding := reach.tls(host, port, ca))
    if finding.status == "ok" and private is not None:
        yield _registration(host, port, ca, private)


def _registration(host: str, port: int, ca: bytes, key: ec.EllipticCurvePrivateKey) -> Finding:
    from aoi_fl.client.device import registration
    from aoi_fl.flower.fleet import AHEAD, BEHIND

    match registration.standing(host, port, ca, key):
        case "":
            return Finding("registration", "ok", "the SuperLink knows this key and this clock, and let it in")
        case registration.CLOCK:
            clock = f"this device's is more than {AHEAD:g} s ahead of the SuperLink's, or {BEHIND:g} s behind it"
            return Finding("clocks", "fail", clock, "Set this device's clock: sudo timedatectl set-ntp true")
        case registration.KEY:
            found = "the SuperLink did not let this key in: it is not registered, or a client with it is online"
            remedy = "See with: flwr supernode list. If it is not there, register this folder's file .pub."
            return Finding("registration", "fail", found, remedy)
        case problem:
            remedy = "Check that HOST:PORT is the Fleet API of a SuperLink (port 9092 unless changed)."
            return Finding("registration", "fail", f"the SuperLink does not answer as one: {problem}", remedy)
