"""Enrol clients' keys, and wait for the SuperLink and for clients."""

import base64
import hashlib
import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from aoi_fl.docker import settings
from aoi_fl.docker.control import Control, read_key, usable_pems
from aoi_fl.flower.calls import CallError
from aoi_fl.flower.control import RunState
from aoi_fl.flower.versions import OVER_GRPC
from aoi_fl.protocol.files import write_whole
from aoi_fl.science.errors import AoiError, ConfigError, NodesError

ENROLMENT = Path("/enrolment")
OPERATOR = Path("/operator")  # the operator's decisions, as files with the key: NAME.accepted, NAME.revoked
AUTHORITY = Path("/pki/trust/ca.crt")
CONTROL = f"superlink-control:{9093 if OVER_GRPC else 9092}"  # over HTTP all share one port
LOOK = 2.0  # seconds between two polls of the SuperLink
CALM = 8.0  # seconds without a new client container, after which Compose has started all of them
FORMER = ".former"  # suffix of a file with a client's replaced keys, one per line
_FORMER_KEYS = 40

_passed_over: dict[Path, str] = {}  # unusable files of keys with the reasons, each reported once


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def enrol(control: Control, enrolment: Path = ENROLMENT, decisions: Path = OPERATOR, *, ask: bool = False) -> None:
    """Register each public key of the enrolment, and inform its client.

    A new key waits for the operator if ``ask`` is true, or if a key of that name is revoked. An unusable file is
    reported once and tried again later, because it may be incomplete.
    """
    for public in sorted(enrolment.glob("*.pub")):
        try:
            _enrol(control, public, decisions, ask)
        except (ConfigError, OSError) as error:
            if _passed_over.get(public) != str(error):
                say(f"skipped: {error}")
            _passed_over[public] = str(error)


def _enrol(control: Control, public: Path, decisions: Path, ask: bool) -> None:
    marker, key = public.with_suffix(".registered"), read_key(public)
    revoked, accepted = (decisions / f"{public.stem}.{decision}" for decision in ("revoked", "accepted"))
    if _holds(revoked, key):
        return
    if (ask or revoked.exists()) and not _holds(accepted, key):
        allowed = f"accepted by the operator; {fingerprint(key)} waits"
        remedy = (
            f"Compare it with the client's, then: docker compose run --rm --no-deps submit nodes accept {public.stem}"
        )
        raise ConfigError("public key", public.name, allowed, remedy)
    if _holds(marker, key):
        return
    if control.register_file(public):
        say(f"{public.stem} is enrolled")
    _retire(marker)
    write_whole(marker, key)  # it replaces a link, and does not follow it


def fingerprint(key: bytes) -> str:
    """Return the fingerprint of a public key as `ssh-keygen -lf` prints it."""
    with suppress(ValueError, IndexError):
        digest = hashlib.sha256(base64.b64decode(key.split()[1])).digest()
        return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"
    return "a key without a fingerprint"


def _retire(marker: Path) -> None:
    """Keep a client's replaced key, because the SuperLink may list its last session for an hour."""
    with suppress(ConfigError):
        replaced, former = read_key(marker), marker.with_suffix(FORMER)
        try:
            lines = read_key(former).splitlines()
        except ConfigError:
            lines = []
        write_whole(former, b"\n".join([*lines, *replaced.splitlines()][-_FORMER_KEYS:]))


def connected(control: Control, enrolment: Path = ENROLMENT) -> set[str]:
    """Return the connected clients by name, or by node id if their key is not enrolled here."""
    names, former = _keys(enrolment, ".pub"), _keys(enrolment, FORMER)
    nodes = control.online()
    return {names.get(key, str(node)) for key, node in nodes.items() if key in names or key not in former}


def _keys(enrolment: Path, suffix: str) -> dict[bytes, str]:
    names = dict[bytes, str]()
    for path in enrolment.glob(f"*{suffix}"):
        names |= dict.fromkeys(usable_pems(path), path.stem)
    return names


def _holds(marker: Path, key: bytes) -> bool:
    try:
        return read_key(marker) == key
    except ConfigError:
        return False


def forget_lost(control: Control, enrolment: Path = ENROLMENT) -> None:
    """Remove the marks of keys that the SuperLink has lost, so that they are registered again.

    A revoked key keeps its mark.
    """
    if markers := sorted(enrolment.glob("*.registered")):
        for marker in control.unknown(markers):
            with suppress(OSError):  # it may not be a file
                marker.unlink()


def replicas() -> int:
    """Return the number of running client containers, by the addresses of their common name."""
    try:
        return len({entry[4][0] for entry in socket.getaddrinfo("client", 9092, type=socket.SOCK_STREAM)})
    except socket.gaierror:
        return 0


def await_replicas() -> None:
    """Wait until Compose has started all client containers, in parallel to this one."""
    count, since = replicas(), time.monotonic()
    while time.monotonic() - since < CALM:
        time.sleep(LOOK / 2)
        if (now := replicas()) != count:
            count, since = now, time.monotonic()


def await_superlink(control: Control, seconds: float) -> list[RunState]:
    """Wait for the SuperLink, remove the marks of lost keys, and return its runs.

    Raises
    ------
    AoiError : the SuperLink has not answered in time.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            runs = control.runs()
            forget_lost(control)
            return runs
        except CallError:  # it restarts
            if time.monotonic() > end:
                raise AoiError(
                    f"the SuperLink has not answered for {seconds:g} s (AOI_JOIN_TIMEOUT). Read its log: "
                    "`docker compose logs superlink`."
                ) from None
        time.sleep(LOOK)


def await_clients(control: Control, wanted: int, least: int, seconds: float) -> None:
    """Enrol clients and wait until all are connected.

    Parameters
    ----------
    control, wanted, seconds : the SuperLink, the number of clients, and the longest wait
    least : number of clients that is enough after that time

    Raises
    ------
    NodesError : fewer clients have connected in time.
    """
    end, reported = time.monotonic() + seconds, -1
    while True:
        names = set[str]()
        with suppress(CallError):  # the SuperLink restarts
            enrol(control, ask=settings.asks_first(os.environ))
            names = connected(control)
        count = len(names)
        if count != reported:
            say(f"{count} of {wanted} clients are connected")
            reported = count
        if count >= wanted:
            return
        if time.monotonic() > end:
            if count >= least:
                return
            missing = ", ".join(sorted({public.stem for public in ENROLMENT.glob("*.pub")} - names)) or "none"
            raise NodesError(
                f"{count} of {wanted} clients are connected after {seconds:g} s (AOI_JOIN_TIMEOUT). Enrolled, but not "
                f"connected: {missing}. See `docker compose logs client`, start more (`--scale client=N`), or lower "
                "AOI_NUM_CLIENTS."
            )
        time.sleep(LOOK)
