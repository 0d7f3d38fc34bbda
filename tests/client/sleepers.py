"""Real SuperNodes that may sleep, at a real SuperLink: how tests register and start them, and follow their run."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aoi_fl.docker.control import Control
from aoi_fl.docker.pki import make_client_key
from aoi_fl.lab.benchmarks.fleet.link import SuperLink


def registered(link: SuperLink, folder: Path, clients: int) -> Control:
    """Make the keys of clients in a folder, let them in, and return a connection to the SuperLink."""
    control = Control(f"127.0.0.1:{link.addresses.control}", link.folder / "trust" / "ca.crt")
    for i in range(clients):
        key = folder / f"{i}.key"
        make_client_key(key, key.with_suffix(".pub"))
        assert control.register_file(key.with_suffix(".pub"))
    return control


def started(
    link: SuperLink, folder: Path, client: int, port: int, program: str, *options: str
) -> subprocess.Popen[bytes]:
    """Start the SuperNode of a client, its own apps on a port."""
    config = f'name="client-{client}" partition-id={client} state-dir="{folder}" seed=2 sleep=true'
    command = [
        sys.executable,
        "-c",
        program,
        f"--superlink={link.fleet}",
        f"--root-certificates={link.folder / 'trust' / 'ca.crt'}",
        f"--auth-supernode-private-key={folder / f'{client}.key'}",
        f"--node-config={config}",
        f"--clientappio-api-address=127.0.0.1:{port}",
        *options,
    ]
    with open(folder / f"{client}.log", "ab") as log:
        return subprocess.Popen(command, env=link.environment, stdout=log, stderr=log)


def played(
    link: SuperLink, control: Control, clients: int, rounds: int, seconds: float
) -> Iterator[list[dict[str, Any]]]:
    """Play a run of one client a round when all are connected; yield its notes twice a second, until it has ended."""
    while len(control.online()) < clients:
        time.sleep(0.5)
    notes = link.folder / "notes"
    about = {"what": "fleet", "clients": clients, "per-round": 1, "rounds": rounds, "round-seconds": seconds}
    link.submit(" ".join(f"{k}={json.dumps(v)}" for k, v in (about | {"out": str(notes)}).items()))
    begun = time.monotonic()
    lines: list[dict[str, Any]] = []
    while not lines or "ended" not in lines[-1]:
        assert time.monotonic() - begun < 300, link.log_tail()
        time.sleep(0.5)
        lines = [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []
        yield lines
