"""Check the connection to a SuperLink step by step: name, port, TLS."""

import base64
import os
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from cryptography import x509

from aoi_fl.flower.seams import FLEET
from aoi_fl.protocol.files import read_regular
from aoi_fl.science.errors import ConfigError

_PATIENCE = 8.0  # seconds a step may take
_SOON = 30.0  # days before a certificate's end
# OpenSSL's X509_V_ERR_… (include/openssl/x509_vfy.h), which Python hands out as numbers.
_NOT_YET, _EXPIRED, _HOST, _ADDRESS = 9, 10, 62, 64
_UNKNOWN = (2, 7, 18, 19, 20, 21)
_PROXIES = {
    True: (("grpc_proxy", "https_proxy", "http_proxy"), ("no_grpc_proxy", "no_proxy")),
    False: (("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"), ("no_proxy", "NO_PROXY")),
}


@dataclass(frozen=True)
class Step:
    """The result of one step: finding, remedy if needed, and whether the checks end here."""

    found: str
    remedy: str = ""
    fatal: bool = False


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``; an IPv6 address needs brackets.

    Raises
    ------
    ConfigError : the address has another form.
    """
    host, _, port = address.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    plain = bare and not any(c.isspace() or c in "/\\'\"$%" for c in bare) and (":" not in bare or bare != host)
    if not plain or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(
            "superlink", address, "of the form HOST:PORT", "Write for instance superlink.example.org:9092."
        )
    return bare, int(port)


def proxy(host: str) -> tuple[str, str]:
    """Return the variable that names a proxy for a host, and its URL; ("", "") without one.

    The variables are those of gRPC, or of requests where Flower uses HTTP.
    """
    names, without = _PROXIES[FLEET.there]
    direct = next(filter(None, map(os.environ.get, without)), "").split(",")
    if any(name.strip() and (name.strip() == "*" or host.endswith(name.strip())) for name in direct):
        return "", ""
    return next(((name, url) for name in names if (url := os.environ.get(name))), ("", ""))


@contextmanager
def _connected(host: str, port: int) -> Iterator[socket.socket]:
    """Connect to a host, through the proxy if the environment names one.

    Raises
    ------
    OSError : the host or the proxy is not reached, or the proxy refuses.
    """
    variable, url = proxy(host)
    through = urlsplit(url)
    with socket.create_connection((through.hostname or host, (through.port or 80) if url else port), _PATIENCE) as way:
        if url:
            name = f"{f'[{host}]' if ':' in host else host}:{port}"
            user = base64.b64encode(unquote(through.netloc.rpartition("@")[0]).encode()).decode()
            login = f"Proxy-Authorization: Basic {user}\r\n" if user else ""
            way.sendall(f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n{login}\r\n".encode())
            answer = b""
            while b"\r\n\r\n" not in answer and (more := way.recv(1)):
                answer += more
            status = answer.partition(b"\r\n")[0].decode("ascii", "replace")
            if " 200" not in status:
                raise OSError(0, f"the proxy of {variable} answers {status[:80]!r}")
        yield way


def tcp(host: str, port: int) -> Step:
    """Resolve a name and open a connection."""
    variable, url = proxy(host)
    through = urlsplit(url)
    shown = f" through the proxy of {variable}={through.hostname}:{through.port or 80}" if url else ""
    try:
        with _connected(host, port):
            return Step(f"{host}:{port} takes connections{shown}")
    except (OSError, UnicodeError) as error:
        found = f"{host}:{port} is not reached{shown}: {getattr(error, 'strerror', None) or error}"
        remedy = (
            "If the port refuses, check that the SuperLink runs and listens on it, not on 127.0.0.1 only. If it is "
            "silent, look for a firewall."
        )
        if isinstance(error, socket.gaierror | UnicodeError):
            remedy = "Check its spelling and this device's network and DNS, or add it to /etc/hosts."
        if url:
            remedy = f"If no proxy is between, set no_proxy={host}. Else ask for its address."
        return Step(found, remedy, True)


def tls(host: str, port: int, ca: bytes) -> Step:
    """Make a TLS handshake as Flower does, and check the certificate and, for gRPC, HTTP/2.

    Parameters
    ----------
    host, port : the address
    ca : the trusted certificates, PEM
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.hostname_checks_common_name = False
    if FLEET.there:
        context.set_alpn_protocols(["h2"])
    try:
        context.load_verify_locations(cadata=ca.decode("ascii"))
        with (
            _connected(host, port) as way,
            context.wrap_socket(way, server_hostname=host) as secure,
        ):
            return _shaken(secure)
    except ssl.SSLCertVerificationError as error:
        return _unverified(error, host, port)
    except OSError as error:
        reason = getattr(error, "reason", None) or error.strerror or error
        plain = reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "UNKNOWN_PROTOCOL")
        found = "the port speaks plain text, not TLS" if plain else f"the TLS handshake failed: {reason}"
        remedy = "Check the port, 9092 unless changed, and that the SuperLink has certificates (no --insecure)."
        return Step(found, remedy, True)


def check(superlink: str, authority: Path) -> None:
    """Wait for the SuperLink and check its certificate; Flower would retry without a reason.

    Parameters
    ----------
    superlink : HOST:PORT
    authority : the file of trusted certificates

    Raises
    ------
    SystemExit : the certificate is not trusted; the message has the reason and the remedy.
    """
    host, port = split_address(superlink)
    trusted, printed = read_regular(authority), ""
    while (step := tcp(host, port)).fatal:
        if step.found != printed:
            print(f"waiting for the SuperLink: {step.found}", flush=True)
            printed = step.found
        time.sleep(2)
    step = tls(host, port, trusted)
    if step.fatal:
        sys.exit(f"this client does not connect to {superlink}: {step.found}. {step.remedy}")


def _shaken(secure: ssl.SSLSocket) -> Step:
    if FLEET.there and secure.selected_alpn_protocol() != "h2":
        remedy = "Check the port: the SuperLink's Fleet API is 9092 unless changed."
        return Step("TLS works, but the server does not support gRPC (no HTTP/2)", remedy, True)
    certificate = secure.getpeercert() or {}
    days = (ssl.cert_time_to_seconds(str(certificate["notAfter"])) - time.time()) / 86400
    found = f"{secure.version()}, certificate valid for {days:.0f} days"
    return Step(found, "" if days > _SOON else "Ask the operator to renew the SuperLink's certificate.")


_CERTIFICATE = {
    (_HOST, _ADDRESS): (
        "is not for {host}",
        "Use a name of the certificate, or ask the operator for a certificate of this host.",
    ),
    (_EXPIRED,): (
        "has expired, by this device's clock",
        "Check this clock. If it is right, ask the operator to renew the certificate.",
    ),
    (_NOT_YET,): (
        "is not valid yet, by this device's clock",
        "The clock is behind: sudo timedatectl set-ntp true",
    ),
    _UNKNOWN: (
        "is not from the authority that this client trusts ({reason}): {issuer} signed it",
        "Copy the SuperLink's ca.crt again. If {issuer} is an intermediate authority, ask the operator to append its "
        "certificate to the SuperLink's own. Else another server answers at this address.",
    ),
}


def _unverified(error: ssl.SSLCertVerificationError, host: str, port: int) -> Step:
    default = "is not accepted: {reason}", "Ask the operator to check it."
    found, remedy = next((texts for codes, texts in _CERTIFICATE.items() if error.verify_code in codes), default)
    about = {"host": host, "reason": error.verify_message, "issuer": _issuer(host, port)}
    return Step(f"the SuperLink's certificate {found.format(**about)}", remedy.format(**about), True)


def _issuer(host: str, port: int) -> str:
    """Return the name of the authority that signed the certificate of a server that is not trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with _connected(host, port) as plain, context.wrap_socket(plain, server_hostname=host) as secure:
            return x509.load_der_x509_certificate(secure.getpeercert(True) or b"").issuer.rfc4514_string()[:200]
    except (OSError, ValueError):
        return "an unknown authority"
