"""Sign and show the receipts of the owner's gate; the only place where the gate meets a key."""

import base64
from collections.abc import Callable
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from aoi_fl.client.device.enroll import KEY
from aoi_fl.client.gate.book import Sign
from aoi_fl.science.errors import ConfigError

_BY = ec.ECDSA(hashes.SHA256())


def signer(key: Path) -> Sign:
    """Return the function that signs receipts with the client's key.

    Raises
    ------
    ConfigError : the file has no such key.
    """
    private = _private(key)
    return lambda data: base64.b64encode(private.sign(data, _BY)).decode()


def verifier(folder: Path) -> Callable[[bytes, str], bool]:
    """Return the function that verifies receipts by the present and the former key of a client's folder."""
    former = folder / f"{KEY}.former"
    keys = [_private(folder / KEY), *([_private(former)] if former.exists() else [])]

    def verify(data: bytes, signature: str) -> bool:
        for private in keys:
            try:
                private.public_key().verify(base64.b64decode(signature), data, _BY)
            except (InvalidSignature, ValueError):
                continue
            return True
        return False

    return verify


def _private(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        private = serialization.load_ssh_private_key(path.read_bytes(), None)
        if isinstance(private, ec.EllipticCurvePrivateKey):
            return private
        problem: object = "it is no key on a NIST curve"
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        problem = error
    raise ConfigError("key", path, f"the client's private key ({problem})", "Make one with aoi enroll.")
