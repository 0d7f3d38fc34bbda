"""Diagnose a device as a client, from the interpreter to its registration at the SuperLink."""

from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from aoi_fl.client.device import checks, enroll, reach
from aoi_fl.client.device.checks import Finding
from aoi_fl.protocol.files import read_regular
from aoi_fl.science.errors import ConfigError


def examine(folder: Path | None, superlink: str | None, ca: Path | None, key: Path | None) -> list[Finding]:
    """Run every check that the arguments, or a folder made by ``aoi enroll``, allow.

    Raises
    ------
    ConfigError : the folder is not a client's folder, or the address is invalid.
    """
    node = None
    if folder is not None:
        if not (folder / enroll.NODE).is_file():
            raise ConfigError("--dir", folder, f"the folder of a client, with {enroll.NODE}", "Run aoi enroll first.")
        node, key, ca = folder / enroll.NODE, key or folder / enroll.KEY, ca or folder / enroll.CA
        superlink = superlink or _superlink(folder)
    address = reach.split_address(superlink) if superlink else None
    findings = [checks.python(), checks.torch(), *checks.configuration(node), checks.clock(ca)]
    certificate = checks.authority(ca)
    private, finding = checks.client_key(key)
    findings += [certificate, finding]
    trusted = None if ca is None or certificate.status == "fail" else read_regular(ca)
    return findings + list(_connection(address, trusted, private))


def _superlink(folder: Path) -> str | None:
    try:
        lines = read_regular(folder / enroll.SUPERLINK).decode().splitlines()
    except (OSError, ValueError):
        return None
    return next((line.partition("=")[2].strip() for line in lines if line.startswith("SUPERLINK=")), None)


def _connection(
    address: tuple[str, int] | None, ca: bytes | None, key: ec.EllipticCurvePrivateKey | None
) -> Iterator[Finding]:
    """Check the connection to the SuperLink up to the first failure."""
    if address is None:
        yield Finding("network", "warn", "no SuperLink was given", "Give it with --superlink, or a folder with --dir.")
        return
    step = reach.tcp(*address)
    yield Finding("network", "fail" if step.remedy else "ok", step.found, step.remedy)
    if step.remedy:
        return
    if ca is None:
        yield Finding("tls", "warn", "not checked without the authority's certificate", "Give it with --ca.")
        return
    step = reach.tls(*address, ca)
    yield Finding("tls", ("fail" if step.fatal else "warn") if step.remedy else "ok", step.found, step.remedy)
    if step.fatal:
        return
    if key is None:
        yield Finding("registration", "warn", "not checked without the key", "Give it with --key.")
        return
    yield from _registration(*address, ca, key)


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
