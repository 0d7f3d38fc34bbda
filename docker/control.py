"""A cluster's calls to its SuperLink: register keys, list connected nodes, follow a run.

Flower's own commands do the same, but each takes a second or two to start. With eight clients that would be most of the
time between `docker compose up` and the first round.
"""

import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from aoi_fl.flower.calls import CallError
from aoi_fl.flower.control import ControlApi, NodeState, RunState
from aoi_fl.science.errors import ConfigError

_LARGEST = 10_000  # bytes of a file with a public key
_MISSING = ("NOT_FOUND", "404")  # codes of an unknown run


class Control(ControlApi):
    """A connection to the Control API over TLS, which survives a restart of the SuperLink; keys are files.

    Parameters
    ----------
    address : host and port
    authority : the certificate of the authority that the SuperLink's certificate comes from

    Notes
    -----
    Every method raises ``CallError`` while the SuperLink is unavailable, and ConfigError for an unusable key's file.
    """

    def __init__(self, address: str, authority: Path) -> None:
        super().__init__(address, authority.read_bytes())

    def register_file(self, public_key: Path) -> bool:
        """Register a client's public key (OpenSSH); return False if it is registered already."""
        if self._node(public_key) is not None:
            return False
        try:
            self.register(read_pems(public_key)[0] + b"\n", public_key.stem)
        except CallError as error:
            if error.away:
                raise
            remedy = "Remove it from the volume enrolment, or copy one that aoi enroll makes."
            raise ConfigError("public key", public_key.name, f"accepted by the SuperLink ({error})", remedy) from None
        return True

    def revoke(self, public_key: Path) -> int:
        """Revoke a client's key, which the SuperLink then refuses, and return its node's id."""
        node = self._node(public_key)
        if node is None:
            raise ConfigError("client", public_key.stem, "a registered client", "There is nothing to revoke.")
        self.unregister(node.node_id)
        return node.node_id

    def standing(self, public_key: Path) -> tuple[str, int]:
        """Return a client's status (``online``, ``offline``, ``registered``, ``unknown``) and id."""
        node = self._node(public_key)
        return ("unknown", 0) if node is None else (node.status, node.node_id)

    def unknown(self, public_keys: Iterable[Path]) -> list[Path]:
        """Return the files without a key, or with a key that the SuperLink does not list."""
        listed = {node.public_key.strip() for node in self.nodes()}
        return [path for path in public_keys if listed.isdisjoint(usable_pems(path)[:1])]

    def online(self) -> dict[bytes, int]:
        """Return key (PEM) and id of each connected node; a dead node stays listed for a minute."""
        return {node.public_key.strip(): node.node_id for node in self.nodes() if node.status == "online"}

    def _node(self, public_key: Path) -> NodeState | None:
        (pem, *_) = read_pems(public_key)
        live = (node for node in self.nodes() if node.status != "unregistered")
        return next((node for node in live if node.public_key.strip() == pem), None)

    def prune(self, keep: Iterable[Path]) -> list[int]:
        """Unregister the keys of nodes that are not connected and not in these files; return their ids."""
        kept = {pem for path in keep for pem in usable_pems(path)}
        ids = []
        for node in self.nodes():
            if node.status in ("offline", "registered") and node.public_key.strip() not in kept:
                self.unregister(node.node_id)
                ids.append(node.node_id)
        return ids

    def run(self, run_id: int) -> RunState | None:
        """Return the state of a run; None if it is not a run of this SuperLink."""
        try:
            return next(iter(self.runs(run_id)), None)
        except CallError as error:
            if error.code in _MISSING:
                return None
            raise


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
