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
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from aoi_fl.flower.versions import OVER_GRPC
from aoi_fl.protocol.files import read_regular
from aoi_fl.science.errors import ConfigError

_PATIENCE = 8.0  # seconds a step may take
_PROXIES = {
    True: (("grpc_proxy", "https_proxy", "http_proxy"), ("no_grpc_proxy", "no_proxy")),
    False: (("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"), ("no_proxy", "NO_PROXY")),
}


@dataclass(frozen=True)
class Finding:
    """The result of one check; ``remedy`` is empty if there is nothing to do."""

    check: str
    status: Literal["ok", "warn", "fail"]
    found: str
    remedy: str = ""


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
    names, without = _PROXIES[OVER_GRPC]
    direct = next(filter(None, map(os.environ.get, without)), "").split(",")
    if any(name.strip() and (name.strip() == "*" or host.endswith(name.strip())) for name in direct):
        return "", ""
    return next(((name, url) for name in names if (url := os.environ.get(name))), ("", ""))


@contextmanager
def _connected(host: str, port: int) -> Iterator[socket.socket]:
    """Connect to a host, through the proxy if the environment names one.

    Raises
    ------
    OSError, HTTPException : the host or the proxy is not reached, or the proxy refuses.
    """
    _, url = proxy(host)
    through = urlsplit(url)
    way = HTTPConnection(through.hostname or host, (through.port or 80) if url else port, timeout=_PATIENCE)
    if url:
        user = base64.b64encode(unquote(through.netloc.rpartition("@")[0]).encode()).decode()
        way.set_tunnel(host, port, {"Proxy-Authorization": f"Basic {user}"} if user else {})
    way.connect()
    with way.sock:
        yield way.sock


def tcp(host: str, port: int) -> Finding:
    """Resolve a name and open a connection."""
    variable, url = proxy(host)
    through = urlsplit(url)
    shown = f" through the proxy of {variable}={through.hostname}:{through.port or 80}" if url else ""
    try:
        with _connected(host, port):
            return Finding("network", "ok", f"{host}:{port} takes connections{shown}")
    except (OSError, UnicodeError, HTTPException) as error:
        found = f"{host}:{port} is not reached{shown}: {getattr(error, 'strerror', None) or error}"
        remedy = (
            "Check its spelling, this device's DNS, firewall and proxy (no_proxy names hosts without one), and that "
            "the SuperLink listens there, not on 127.0.0.1 only."
        )
        return Finding("network", "fail", found, remedy)


def tls(host: str, port: int, ca: bytes) -> Finding:
    """Make a TLS handshake as Flower does, and check the certificate and, for gRPC, HTTP/2.

    Parameters
    ----------
    host, port : the address
    ca : the trusted certificates, PEM
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.hostname_checks_common_name = False
    if OVER_GRPC:
        context.set_alpn_protocols(["h2"])
    try:
        context.load_verify_locations(cadata=ca.decode("ascii", "ignore"))
        with _connected(host, port) as way, context.wrap_socket(way, server_hostname=host) as secure:
            if OVER_GRPC and secure.selected_alpn_protocol() != "h2":
                remedy = "Check the port: the SuperLink's Fleet API is 9092 unless changed."
                return Finding("tls", "fail", "TLS works, but the server does not support gRPC (no HTTP/2)", remedy)
            certificate = secure.getpeercert() or {}
            return Finding("tls", "ok", f"{secure.version()}, certificate valid until {certificate['notAfter']}")
    except ssl.SSLCertVerificationError as error:
        remedy = (
            "Check this device's clock and the address, and copy ca.crt again. The SuperLink may lack the certificate "
            "of an intermediate authority, or another server answers."
        )
        return Finding("tls", "fail", f"the SuperLink's certificate is not accepted: {error.verify_message}", remedy)
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        remedy = (
            "Check ca.crt and the port, 9092 unless changed, and that the SuperLink has certificates (no --insecure)."
        )
        return Finding("tls", "fail", f"the TLS handshake failed: {reason}", remedy)


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
    while (step := tcp(host, port)).status == "fail":
        if step.found != printed:
            print(f"waiting for the SuperLink: {step.found}", flush=True)
            printed = step.found
        time.sleep(2)
    step = tls(host, port, trusted)
    if step.status == "fail":
        sys.exit(f"this client does not connect to {superlink}: {step.found}. {step.remedy}")
