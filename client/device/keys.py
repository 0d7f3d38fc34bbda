"""A client's key: EC P-256 in OpenSSH's form, as Flower's SuperNode reads it."""

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from aoi_fl.protocol.files import read_regular
from aoi_fl.science.errors import ConfigError


def make_key() -> ec.EllipticCurvePrivateKey:
    """Return a new private key."""
    return ec.generate_private_key(ec.SECP256R1())


def halves(private: ec.EllipticCurvePrivateKey) -> tuple[bytes, bytes]:
    """Return a private key and its public key as their files have them; the public one without its end of line."""
    form = serialization.PrivateFormat.OpenSSH
    secret = private.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    public = private.public_key()
    return secret, public.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)


def private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Return a client's private key.

    Raises
    ------
    ConfigError : the file has no such key.
    """
    try:
        private = serialization.load_ssh_private_key(read_regular(path), None)
        if isinstance(private, ec.EllipticCurvePrivateKey):
            return private
        problem: object = "it is no key on a NIST curve"
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        problem = error
    raise ConfigError(
        "key", path, f"the client's private key ({problem})", "Make one with aoi enroll, or use its account."
    )
