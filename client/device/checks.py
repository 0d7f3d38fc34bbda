"""Local checks of a device: torch, configuration, gate, disk and key."""

import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from aoi_fl.client.device import enroll
from aoi_fl.client.device.keys import private_key
from aoi_fl.client.device.node import check
from aoi_fl.client.device.reach import Finding
from aoi_fl.client.device.receipts import read_receipts
from aoi_fl.client.gate.book import RESTORE, ROOM, Book, GateState
from aoi_fl.client.gate.gate import CLOCK, set_back
from aoi_fl.client.gate.limits import Refusal
from aoi_fl.protocol.files import try_writing
from aoi_fl.science.errors import ConfigError

_FULL = 200e6  # bytes free on the disk of the client's state
_TORCH = "import torch; print(torch.__version__, torch.cuda.is_available())"


def torch() -> Finding:
    """Import torch in a separate process, because an illegal instruction may end the process."""
    try:
        done = subprocess.run([sys.executable, "-c", _TORCH], capture_output=True, text=True, timeout=180, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("torch", "warn", f"could not be tried: {error}", "Try it: python -c 'import torch'")
    if done.returncode == 0:
        version, cuda = done.stdout.split()[-2:]
        return Finding("torch", "ok", f"{version}, {'with CUDA' if cuda == 'True' else 'without CUDA'}")
    last = (done.stderr.strip().splitlines() or [f"the interpreter ended with {done.returncode}"])[-1]
    remedy = "A training that needs torch will fail. Install a build for this machine: docs/edge.md."
    return Finding("torch", "warn", f"cannot be imported: {last}", remedy)


def configuration(folder: Path) -> Iterator[Finding]:
    """Check the node configuration of a client's folder, state folder, disk and data file."""
    try:
        check(node := enroll.read_node(folder))
    except ConfigError as error:
        yield Finding("configuration", "fail", error.problem, error.remedy)
        return
    yield Finding("configuration", "ok", f"{folder / enroll.NODE}, client {node['name']}")
    yield from durable(Path(str(node["state-dir"])))
    if "data-file" in node:
        path = Path(str(node["data-file"]))
        if os.access(path, os.R_OK):
            yield Finding("data", "ok", str(path))
        else:
            remedy = "Write it with numpy.savez(path, x=images, y=labels), or change data-file."
            yield Finding("data", "warn", f"{path} does not exist or cannot be read", remedy)


def durable(folder: Path) -> Iterator[Finding]:
    """Check what the owner's gate needs: a folder that can be written, its files, a right clock, and room."""
    yield state(folder)
    yield gate(folder, time.time())[0]
    yield disk(folder)


def state(folder: Path) -> Finding:
    """Check that the client can write its state."""
    if not folder.exists():
        return Finding("state", "ok", f"{folder} does not exist yet; the service creates it at its first start")
    try:
        try_writing(folder)
    except OSError as error:
        account = "Run this as the account of the client, or give that account the folder: chown -R USER."
        remedy = account if isinstance(error, PermissionError) else ROOM
        return Finding("state", "fail", f"{folder} cannot be written: {error.strerror}", remedy)
    return Finding("state", "ok", f"{folder} can be written")


def gate(folder: Path, now: float) -> tuple[Finding, GateState | None, list[dict[str, Any]]]:
    """Check the state and receipts of the owner's gate, and its latest time against the clock; return them too."""
    book = Book(folder)
    try:
        state = book.load()
        entries, problems = read_receipts(book)
    except Refusal as refusal:
        return Finding("gate", "fail", f"closed: {refusal.reason}", refusal.remedy), None, []
    except ConfigError as error:
        return Finding("gate", "fail", error.problem, error.remedy), None, []
    if problems:
        return Finding("gate", "fail", f"receipts that are not whole: {problems[0]}", RESTORE), state, []
    if back := set_back(state, now):
        return Finding("gate", "fail", back, CLOCK), state, entries
    return Finding("gate", "ok", f"{len(entries)} receipts"), state, entries


def disk(folder: Path) -> Finding:
    """Check the free space on the disk of a folder that may not exist yet."""
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    free = shutil.disk_usage(existing).free
    found = f"{free / 1e9:.1f} GB free at {existing}"
    if free < _FULL:
        return Finding("disk", "fail", found, "Make room: a client that cannot write its state sends no update.")
    return Finding("disk", "ok", found)


def client_key(path: Path) -> tuple[ec.EllipticCurvePrivateKey | None, Finding]:
    """Check the client's private key, and return it if it is valid."""
    try:
        private = private_key(path)
    except ConfigError as error:
        return None, Finding("key", "fail", error.problem, error.remedy)
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        remedy = f"chmod 600 {path}; if others use this device, enrol it again."
        return private, Finding("key", "fail", f"{path} can be read by other accounts", remedy)
    return private, Finding("key", "ok", f"{path}, {private.curve.name}")
