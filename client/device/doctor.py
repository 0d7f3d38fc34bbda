"""Diagnose a device as a client, from torch to its registration at the SuperLink."""

from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from aoi_fl.client.device import checks, enroll, reach
from aoi_fl.client.device.checks import Finding
from aoi_fl.protocol.files import read_regular


def examine(folder: Path) -> Iterator[Finding]:
    """Run every check on a folder made by ``aoi enroll``, the last ones over the network."""
    yield from (checks.torch(), *checks.configuration(folder))
    authority = checks.authority(folder / enroll.CA)
    private, finding = checks.client_key(folder / enroll.KEY)
    yield from (authority, finding)
    path = folder / enroll.SUPERLINK
    try:
        words = read_regular(path).decode().split()
        host, port = reach.split_address(next(w.partition("=")[2] for w in words if w.startswith("SUPERLINK=")))
    except (OSError, ValueError, StopIteration) as error:
        yield Finding("network", "fail", f"{path}: {error}", "Write the address there: SUPERLINK=HOST:PORT.")
        return
    step = reach.tcp(host, port)
    yield _finding("network", step)
    if step.fatal or authority.status == "fail":
        return
    step = reach.tls(host, port, ca := read_regular(folder / enroll.CA))
    yield _finding("tls", step)
    if not step.fatal and private is not None:
        yield from _registration(host, port, ca, private)


def _finding(check: str, step: reach.Step) -> Finding:
    return Finding(check, "fail" if step.fatal else "warn" if step.remedy else "ok", step.found, step.remedy)


def _registration(host: str, port: int, ca: bytes, key: ec.EllipticCurvePrivateKey) -> Iterator[Finding]:
    from aoi_fl.client.device.registration import standing
    from aoi_fl.flower.fleet import AHEAD, BEHIND

    answer = standing(host, port, ca, key)
    if answer.problem:
        remedy = "Check that HOST:PORT is the Fleet API of a SuperLink (port 9092 unless changed)."
        yield Finding("registration", "fail", f"the SuperLink does not answer as one: {answer.problem}", remedy)
    elif not answer.authenticates:
        remedy = "Ask the operator to start it with --enable-supernode-auth: now any machine can be a client."
        yield Finding("registration", "warn", "the SuperLink asks for no key", remedy)
    elif not answer.in_time:
        clocks = f"this device's is more than {AHEAD:g} s ahead of the SuperLink's, or {BEHIND:g} s behind it"
        yield Finding("clocks", "fail", clocks, "Set this device's clock: sudo timedatectl set-ntp true")
    else:
        yield Finding("clocks", "ok", "the SuperLink accepts the time of this device")
        if answer.registered:
            yield Finding("registration", "ok", "the SuperLink knows this key, and let it in")
        else:
            public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
            yield Finding(
                "registration",
                "fail",
                "the SuperLink did not let this key in: it is not registered, or a client with it is online (or was "
                "until a minute ago)",
                f"See with: flwr supernode list. If it is not there, register: {public.decode()}",
            )
