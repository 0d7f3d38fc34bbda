"""The keys of a cluster's clients: their enrolment, and the operator's decisions.

Flower's own commands do the same, but each takes a second or two to start. With eight clients that would be most of the
time between `docker compose up` and the first round.
"""

import base64
import hashlib
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from aoi_fl.docker import settings
from aoi_fl.flower.calls import CallError
from aoi_fl.flower.control import ControlApi, NodeState
from aoi_fl.protocol.files import write_whole
from aoi_fl.science.errors import ConfigError

ENROLMENT = Path("/enrolment")
OPERATOR = Path("/operator")  # the operator's decisions, as files with the key: NAME.accepted, NAME.revoked
FORMER = ".former"  # suffix of a file with a client's replaced keys, one per line
_FORMER_KEYS = 40
_LARGEST = 10_000  # bytes of a file with a public key

_passed_over: dict[Path, str] = {}  # unusable files of keys with the reasons, each reported once


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


class ClusterNodes:
    """The clients of a cluster, by the files with their public keys (OpenSSH).

    Parameters
    ----------
    control : the SuperLink
    folder : the enrolment: NAME.pub of each client, and NAME.registered when the SuperLink has its key
    decisions : the operator's folder

    Notes
    -----
    Every method raises ``CallError`` while the SuperLink is unavailable, and ConfigError for an unusable key's file.
    """

    def __init__(self, control: ControlApi, folder: Path = ENROLMENT, decisions: Path = OPERATOR) -> None:
        self.control, self._folder, self._decisions = control, folder, decisions

    def names(self) -> list[str]:
        """Return the names of the enrolled clients."""
        return sorted(public.stem for public in self._folder.glob("*.pub"))

    def enrol(self) -> None:
        """Register each public key of the enrolment, and inform its client.

        A new key waits for the operator with AOI_ENROL=ask, or if a key of that name is revoked. An unusable file is
        reported once and tried again later, because it may be incomplete.
        """
        ask = settings.asks_first(os.environ)
        for name in self.names():
            try:
                self._enrol(name, ask)
            except (ConfigError, OSError) as error:
                public = self._public(name)
                if _passed_over.get(public) != str(error):
                    say(f"skipped: {error}")
                _passed_over[public] = str(error)

    def _enrol(self, name: str, ask: bool) -> None:
        marker, key = self._marker(name), read_key(self._public(name))
        revoked = self._decided(name, "revoked")
        if _held(revoked) == key:
            return
        if (ask or revoked.exists()) and _held(self._decided(name, "accepted")) != key:
            allowed = f"accepted by the operator; {fingerprint(key)} waits"
            remedy = f"Compare it with the client's, then: docker compose run --rm --no-deps submit nodes accept {name}"
            raise ConfigError("public key", f"{name}.pub", allowed, remedy)
        replaced = _held(marker)
        if replaced == key:
            return
        if self.register(name):
            say(f"{name} is enrolled")
        if replaced is not None:  # the SuperLink may list its last session for an hour
            former = self._folder / f"{name}{FORMER}"
            lines = [*(_held(former) or b"").splitlines(), *replaced.splitlines()]
            write_whole(former, b"\n".join(lines[-_FORMER_KEYS:]))
        write_whole(marker, key)  # it replaces a link, and does not follow it

    def register(self, name: str) -> bool:
        """Register a client's public key; return False if it is registered already."""
        if self._node(name) is not None:
            return False
        try:
            self.control.register(read_pems(self._public(name))[0] + b"\n", name)
        except CallError as error:
            if error.away:
                raise
            remedy = "Remove it from the volume enrolment, or copy one that aoi enroll makes."
            raise ConfigError("public key", f"{name}.pub", f"accepted by the SuperLink ({error})", remedy) from None
        return True

    def online(self) -> dict[bytes, int]:
        """Return key (PEM) and id of each connected node; a dead node stays listed for a minute."""
        return {node.public_key.strip(): node.node_id for node in self.control.nodes() if node.status == "online"}

    def connected(self) -> set[str]:
        """Return the connected clients by name, or by node id if their key is not enrolled here."""
        names, former = self._keys(".pub"), self._keys(FORMER)
        nodes = self.online()
        return {names.get(key, str(node)) for key, node in nodes.items() if key in names or key not in former}

    def _keys(self, suffix: str) -> dict[bytes, str]:
        return {key: path.stem for path in self._folder.glob(f"*{suffix}") for key in usable_pems(path)}

    def forget_lost(self) -> None:
        """Remove the marks of keys that the SuperLink has lost, so that they are registered again.

        A revoked key keeps its mark.
        """
        if markers := sorted(self._folder.glob("*.registered")):
            listed = {node.public_key.strip() for node in self.control.nodes()}
            for marker in markers:
                if listed.isdisjoint(usable_pems(marker)[:1]):
                    with suppress(OSError):  # it may not be a file
                        marker.unlink()

    def revoke(self, name: str) -> None:
        """Revoke a client's key, so that the SuperLink refuses it."""
        key = self._key(name)
        node = self._node(name)
        if node is None:
            raise ConfigError("client", name, "a registered client", "There is nothing to revoke.")
        self.control.unregister(node.node_id)
        write_whole(self._decided(name, "revoked"), key)  # no key of that name is registered by itself
        self._decided(name, "accepted").unlink(missing_ok=True)
        self._marker(name).unlink(missing_ok=True)
        say(f"{name} (node {node.node_id}) is revoked")

    def accept(self, names: Sequence[str]) -> None:
        """Accept the present keys of clients that wait for the operator, and register them."""
        for name in names:
            key = self._key(name)
            revoked = self._decided(name, "revoked")
            if revoked.exists() and read_key(revoked) == key:
                remedy = "Start the client with a new key, and accept that."
                raise ConfigError("client", name, "a client with a key that is not revoked", remedy)
            write_whole(self._decided(name, "accepted"), key)
            say(f"{name} is accepted with {fingerprint(key)}")
        self.enrol()

    def prune(self) -> list[int]:
        """Unregister the keys of nodes that are not connected and not enrolled; return their ids."""
        kept = self._keys(".pub")
        ids = []
        for node in self.control.nodes():
            if node.status in ("offline", "registered") and node.public_key.strip() not in kept:
                self.control.unregister(node.node_id)
                ids.append(node.node_id)
        return ids

    def show(self) -> None:
        """List the clients with status, node and container, and unusable files of keys."""
        for name in self.names():
            container = (_held(self._folder / f"{name}.container") or b"").decode(errors="replace")
            try:
                status, node = self.standing(name)
                say(f"{name} {status} {node} {container}".rstrip())
            except ConfigError as error:
                say(f"skipped: {error}")

    def standing(self, name: str) -> tuple[str, int]:
        """Return a client's status (``online``, ``offline``, ``registered``, ``asks``, …) and its node's id."""
        if (node := self._node(name)) is not None:
            return node.status, node.node_id
        if self._marker(name).exists():
            return "unknown", 0
        return "revoked" if self._decided(name, "revoked").exists() else "asks", 0

    def _node(self, name: str) -> NodeState | None:
        (pem, *_) = read_pems(self._public(name))
        live = (node for node in self.control.nodes() if node.status != "unregistered")
        return next((node for node in live if node.public_key.strip() == pem), None)

    def _key(self, name: str) -> bytes:
        """Return the key of an enrolled client."""
        if name not in (names := self.names()):
            allowed = tuple(names) or "an enrolled client, and there is none"
            raise ConfigError("client", name, allowed, "Choose one of the enrolled clients.")
        return read_key(self._public(name))

    def _public(self, name: str) -> Path:
        return self._folder / f"{name}.pub"

    def _marker(self, name: str) -> Path:
        return self._folder / f"{name}.registered"

    def _decided(self, name: str, decision: str) -> Path:
        return self._decisions / f"{name}.{decision}"


def fingerprint(key: bytes) -> str:
    """Return the fingerprint of a public key as `ssh-keygen -lf` prints it."""
    with suppress(ValueError, IndexError):
        digest = hashlib.sha256(base64.b64decode(key.split()[1])).digest()
        return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"
    return "a key without a fingerprint"


def _held(path: Path) -> bytes | None:
    """Return the content of a key's file; None if it is missing or unusable."""
    with suppress(ConfigError):
        return read_key(path)
    return None


def read_key(public_key: Path) -> bytes:
    """Return the content of a public key's file.

    Raises
    ------
    ConfigError : it is a link, a pipe or a large file, or cannot be read.
    """
    try:
        found = public_key.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
            raise OSError(f"it is not a file of at most {_LARGEST} bytes")
        return public_key.read_bytes()
    except OSError as error:
        raise _unreadable(public_key, error) from None


def read_pems(public_keys: Path) -> list[bytes]:
    """Return a file's keys (OpenSSH, one per line) as PEM; ConfigError if one is incomplete."""
    try:
        keys = [serialization.load_ssh_public_key(line) for line in read_key(public_keys).splitlines() or [b""]]
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _unreadable(public_keys, error) from None
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return [key.public_bytes(*form).strip() for key in keys]


def usable_pems(public_keys: Path) -> list[bytes]:
    """Return a file's keys as PEM; none if one is incomplete."""
    with suppress(ConfigError):
        return read_pems(public_keys)
    return []


def _unreadable(public_key: Path, error: Exception) -> ConfigError:
    remedy = "Remove it from the volume enrolment, or copy the whole file again."
    return ConfigError("public key", public_key.name, f"readable ({error})", remedy)
