"""Make and renew the cluster's certificate authority, server certificate and secret.

Every start of the cluster runs this first. Valid files stay. The server's certificate is renewed before it expires, or
when its names have changed.

Folders, each a volume that only its users mount
------------------------------------------------
authority   the authority's private key; for this program only
server      the SuperLink's certificate and private key
superexec   the secret that authenticates the SuperExec at the SuperLink
trust       the authority's certificate, which is public
"""

import ipaddress
import os
import secrets
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from aoi_fl.client.device.keys import halves, make_key, private_key
from aoi_fl.docker import settings
from aoi_fl.protocol.files import write_whole
from aoi_fl.science.errors import AoiError, ConfigError, shortened

AUTHORITY_DAYS, SERVER_DAYS, RENEW_DAYS = 3650, 397, 30
NAMES = ("superlink", "superlink-control", "localhost", "127.0.0.1")


def make_all(root: Path, hosts: tuple[str, ...] = (), *, server_days: int = SERVER_DAYS) -> list[str]:
    """Make missing or stale files under ``root``, and return a description of each.

    Parameters
    ----------
    root : the folder with the four folders
    hosts : further names and addresses of the SuperLink for clients
    server_days : validity of a server certificate; below ``RENEW_DAYS`` every start renews it
    """
    made = []
    authority, server, trust = root / "authority", root / "server", root / "trust"
    secret = root / "superexec" / "secret"
    for folder in (authority, server, trust, secret.parent):
        folder.mkdir(parents=True, exist_ok=True)
    halves = authority / "ca.key", trust / "ca.crt"
    if not any(half.exists() for half in halves):
        key = ec.generate_private_key(ec.SECP384R1())
        # A unique name, which distinguishes a certificate of another cluster from a forged one of this cluster.
        called = f"AoI-FL cluster authority {secrets.token_hex(4)}"
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        certificate = _certificate(called, key, AUTHORITY_DAYS, None, key, identifier)
        write_whole(trust / "ca.crt", certificate.public_bytes(serialization.Encoding.PEM), 0o644)
        write_whole(authority / "ca.key", _pem(key), 0o600)
        made.append("a certificate authority")
    issuer, issuer_key = _authority(*halves)
    names = tuple(dict.fromkeys((*NAMES, *hosts)))
    if not _still_good(server / "server.crt", issuer, names):
        key = ec.generate_private_key(ec.SECP384R1())
        certificate = _certificate(
            "superlink",
            key,
            server_days,
            issuer,
            issuer_key,
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
            x509.SubjectAlternativeName([_general_name(n) for n in names]),
        )
        write_whole(server / "server.key", _pem(key), 0o600)
        write_whole(server / "server.crt", certificate.public_bytes(serialization.Encoding.PEM), 0o644)
        until = f"{certificate.not_valid_after_utc:%Y-%m-%d}"
        made.append(f"a server certificate for {', '.join(names)}, good until {until}")
    if not secret.exists():
        write_whole(secret, secrets.token_bytes(32), 0o600)
        made.append("a secret for the SuperExec")
    return made


def _authority(key: Path, certificate: Path) -> tuple[x509.Certificate, Any]:
    """Return the authority's certificate and private key.

    Raises
    ------
    ConfigError : one of them is missing or unreadable, or they do not belong together.
    """
    try:
        issuer = x509.load_pem_x509_certificate(certificate.read_bytes())
        private: Any = serialization.load_pem_private_key(key.read_bytes(), None)
        if private.public_key() != issuer.public_key():
            raise ValueError("they do not belong together")
    except (OSError, ValueError) as error:
        remedy = "Restore the volumes authority and trust from one backup. For a new authority, remove both and server."
        raise ConfigError("authority", f"{key} and {certificate}", f"whole ({error})", remedy) from error
    return issuer, private


def make_client_key(private: Path, public: Path) -> None:
    """Make a client's key pair in Flower's format, unless it exists.

    Files are renamed into place, so no key is incomplete. The private key is first; the public key follows from it.
    """
    secret, text = halves(private_key(private) if private.exists() else make_key())
    if not private.exists():
        write_whole(private, secret, 0o600)
    if not public.exists() or public.read_bytes() != text:
        write_whole(public, text, 0o644)


def _certificate(
    called: str,
    key: ec.EllipticCurvePrivateKey,
    days: int,
    issuer: x509.Certificate | None,
    issuer_key: Any,
    *extensions: x509.ExtensionType,
) -> x509.Certificate:
    """Return a signed certificate; without an issuer it is the authority's own."""
    now, name = datetime.now(UTC), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, called)])
    is_authority = issuer is None
    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only")
    signs = dict.fromkeys(("key_cert_sign", "crl_sign"), is_authority)
    unused = dict.fromkeys((*others, "decipher_only"), False)
    usage = x509.KeyUsage(digital_signature=not is_authority, **signs, **unused)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + timedelta(days=days)) - timedelta(hours=1))  # clocks of devices differ
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(is_authority, 0 if is_authority else None), critical=True)
        .add_extension(usage, critical=True)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(issuer_key, hashes.SHA384())


def _still_good(path: Path, issuer: x509.Certificate, names: tuple[str, ...]) -> bool:
    """Return whether a certificate has this issuer and these names, and is valid long enough."""
    if not path.exists() or not path.with_suffix(".key").exists():
        return False
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    try:
        certificate.verify_directly_issued_by(issuer)
    except Exception:  # a new certificate replaces any invalid one
        return False
    carried = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    if set(carried) != {_general_name(n) for n in names}:
        return False
    return certificate.not_valid_after_utc - datetime.now(UTC) > timedelta(days=RENEW_DAYS)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def main() -> None:
    """Check the settings in .env, then make the files under /pki; exit with 2 at a wrong one."""
    try:
        settings.check(settings.from_file(Path("/project/.env")))
        hosts = tuple(os.environ.get("AOI_SUPERLINK_HOSTS", "").replace(",", " ").split())
        made = make_all(Path("/pki"), hosts)
    except AoiError as error:
        print(f"aoi: {shortened(str(error))}", flush=True)
        sys.exit(2)
    print(f"made {'; '.join(made)}" if made else "certificates and keys are there and good", flush=True)


if __name__ == "__main__":
    main()
