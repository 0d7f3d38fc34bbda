"""What the owner sees and does at the gate: receipts and apps. Here alone the gate meets the client's key."""

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from aoi_fl.client.device.enroll import KEY, read_node
from aoi_fl.client.device.keys import private_key
from aoi_fl.client.gate.book import Book, GateState, KnownApp, Sign, signed
from aoi_fl.client.gate.limits import Refusal
from aoi_fl.client.gate.rules import APPS, DIGEST, STATE, Rules
from aoi_fl.protocol.files import read_regular
from aoi_fl.science.errors import ConfigError, refusing

_MOST_BYTES = 1 << 30
_BY = ec.ECDSA(hashes.SHA256())


def signer(key: Path) -> Sign:
    """Return the function that signs receipts with the client's key.

    Raises
    ------
    ConfigError : the file has no such key.
    """
    private = private_key(key)
    return lambda data: base64.b64encode(private.sign(data, _BY)).decode()


def verifier(folder: Path) -> Callable[[bytes, str], bool]:
    """Return the function that verifies receipts by the present and the former key of a client's folder."""
    former = folder / f"{KEY}.former"
    keys = [private_key(key).public_key() for key in (folder / KEY, former) if key != former or key.exists()]

    def verify(data: bytes, signature: str) -> bool:
        for key in keys:
            with suppress(InvalidSignature, ValueError):
                key.verify(base64.b64decode(signature), data, _BY)
                return True
        return False

    return verify


def read(folder: Path, *, verify: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the receipts of a client's folder, and what is wrong with them if they are verified."""
    files = Book(Path(str(read_node(folder)[STATE])))
    entries, problems = read_receipts(files, verifier(folder) if verify else None)
    return entries, problems if verify else []


def line(entry: Mapping[str, Any]) -> str:
    """Return a receipt in one line for a reader."""
    at = f"{datetime.fromtimestamp(entry['time']):%Y-%m-%d %H:%M:%S}"
    rule = f" by {entry['rule']}" if entry["rule"] else ""
    norm = "" if entry["norm"] is None else f", norm {entry['norm']:.4g}"
    since = f"{datetime.fromtimestamp(entry['since']):%H:%M}"
    times = f" {entry['times']} times since {since}" if entry["times"] > 1 else ""
    about = f"{entry['kind']}, round {entry['round'] or '-'} of run {entry['run']} at {entry['server']}"
    return f"{at}  {entry['decision']}{rule}{times}: {about}, app {entry['app'][:12]}, {entry['bytes']} bytes{norm}"


def apps_of(folder: Path) -> Iterator[tuple[str, KnownApp, bool]]:
    """Yield the digest of each known app, what is known of it, and whether it may run."""
    node = read_node(folder)
    listed = Rules.read(node).apps
    known = Book(Path(str(node[STATE]))).load().apps
    for digest in {**known, **dict.fromkeys(listed or ())}:
        app = known.get(digest, KnownApp(0.0, ""))
        yield digest, app, listed is None or digest in listed or app.approved


def approve(folder: Path, digest: str) -> None:
    """Approve an app for a client's gate, at once and for ever.

    Raises
    ------
    ConfigError : the digest has another form.
    Refusal : the gate's state cannot be read or written.
    """
    if not DIGEST.fullmatch(digest):
        raise ConfigError(APPS, digest, "a SHA-256 digest of 64 digits 0-9a-f", "aoi device apps shows them.")
    book = Book(Path(str(read_node(folder)[STATE])))
    with book.locked():
        state = book.load()
        app = replace(state.apps.get(digest, KnownApp(0.0, "")), approved=True)
        book.save(replace(state, apps={**state.apps, digest: app}))


def read_receipts(
    book: Book, verify: Callable[[bytes, str], bool] | None = None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the receipts, and what is wrong with them.

    Parameters
    ----------
    book : the gate's files
    verify : returns whether a signature of bytes is by this device's key; None: signatures are not checked
    """
    entries: list[dict[str, Any]] = []
    problems: list[str] = []
    try:
        state = book.load()  # before the receipts, to which a SuperNode may append meanwhile
    except Refusal as refusal:
        state, problems = GateState(), [refusal.reason]
    blob = b""
    with refusing(OSError, STATE, book.receipts, "readable receipts", "Check this file."), suppress(FileNotFoundError):
        blob = read_regular(book.receipts, most=_MOST_BYTES)
    digests = [""]
    for number, line in enumerate(blob.split(b"\n")[:-1], start=1):
        try:
            entry = json.loads(line)
            if entry["line"] != number or entry["before"] != digests[-1]:
                problems.append(f"line {number} does not follow the line before it")
            if verify is not None and not verify(signed(entry), str(entry["signature"])):
                problems.append(f"line {number} is not signed by this device's key")
            entries.append(entry)
        except (ValueError, KeyError, TypeError, RecursionError):
            problems.append(f"line {number} cannot be read")
        digests.append(hashlib.sha256(line).hexdigest())
    if digests[state.lines : state.lines + 1] != [state.head]:
        problems.append(f"the state knows {state.lines} receipts, and there are {len(digests) - 1}")
    return entries, problems
