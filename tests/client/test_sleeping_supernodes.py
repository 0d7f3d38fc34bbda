"""Real SuperNodes that sleep, as `aoi enroll` has them, at a real SuperLink that counts them as connected meanwhile."""

import json
import subprocess
import sys
import time
from collections import Counter
from typing import Any

import pytest

from aoi_fl.docker.nodes import ClusterNodes
from aoi_fl.docker.pki import make_client_key
from aoi_fl.flower.superlink import free_ports
from aoi_fl.flower.versions import OVER_GRPC
from aoi_fl.lab.benchmarks.base import APP
from aoi_fl.lab.benchmarks.fleet.link import superlink

CLIENTS = 3
# A start takes some seconds here, and rounds are short.
QUICK = """
from aoi_fl.client import session, supernode
session.SHORTEST_ABSENCE, session.LEAD, supernode.PAUSE = 16.0, 14.0, 0.0
supernode.main()
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.skipif(not OVER_GRPC, reason="it starts the programs of gRPC"),
]


def registered(link, folder):
    """Make the clients' keys in a folder, let them in, and return them as the SuperLink knows them."""
    clients = ClusterNodes(link.control, folder)
    for i in range(CLIENTS):
        key = folder / f"{i}.key"
        make_client_key(key, key.with_suffix(".pub"))
        assert clients.register(str(i))
    return clients


def started(link, folder, client, port, *options):
    """Start the SuperNode of a client, its own apps on a port."""
    config = f'name="client-{client}" partition-id={client} state-dir="{folder}" seed=2 sleep=true'
    command = [
        sys.executable,
        "-c",
        QUICK,
        f"--superlink={link.fleet}",
        f"--root-certificates={link.folder / 'trust' / 'ca.crt'}",
        f"--auth-supernode-private-key={folder / f'{client}.key'}",
        f"--node-config={config}",
        f"--clientappio-api-address=127.0.0.1:{port}",
        f"--session={folder / f'{client}.session'}",
        *options,
    ]
    with open(folder / f"{client}.log", "ab") as log:
        return subprocess.Popen(command, env=link.environment, stdout=log, stderr=log)


def played(link, clients):
    """Play a run of one client a round when all are connected; yield its notes twice a second, until it has ended."""
    while len(clients.online()) < CLIENTS:
        time.sleep(0.5)
    notes = link.folder / "notes"
    about = {"what": "fleet.server:play", "clients": CLIENTS, "per-round": 1, "rounds": 5, "round-seconds": 20.0}
    about["out"] = str(notes)
    link.submit(APP, " ".join(f"{k}={json.dumps(v)}" for k, v in about.items()))
    lines: list[dict[str, Any]] = []
    begun = time.monotonic()
    while not lines or "ended" not in lines[-1]:
        assert time.monotonic() - begun < 300, link.log_tail()
        time.sleep(0.5)
        lines = [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []
        yield lines


def test_sleeping_clients_rejoin_at_once_after_a_power_cut(tmp_path):
    with superlink() as link:
        clients, starts = registered(link, tmp_path), Counter[int]()
        nodes: dict[int, subprocess.Popen[bytes]] = {}

        def look_after() -> None:
            """Start the nodes that are due, as the timer does each minute."""
            for i, port in enumerate(free_ports(CLIENTS)):
                if i not in nodes or nodes[i].poll() is not None:
                    assert i not in nodes or nodes[i].returncode == 0, (tmp_path / f"{i}.log").read_text()
                    kept = tmp_path / f"{i}.session"
                    if not kept.exists() or not kept.read_text() or float(kept.read_text().split()[0]) <= time.time():
                        nodes[i] = started(link, tmp_path, i, port, "--leave")
                        starts[i] += 1

        try:
            look_after()
            alone = 0
            for lines in played(link, clients):
                look_after()
                alone += any(node.poll() is not None for node in nodes.values()) and len(clients.online()) == CLIENTS
                rounds = [line for line in lines if "round" in line]
            assert sum(line["trained"] for line in rounds) >= 3 and not any(line["dropped"] for line in rounds), rounds
            assert alone and max(starts.values()) > 1  # a client had ended, and was counted as connected
            for node in nodes.values():
                node.kill()
                node.wait()
            nodes[0] = started(link, tmp_path, 0, free_ports(1)[0])
            time.sleep(20)
            assert nodes[0].poll() is None and "Activated" in said_last(link), (tmp_path / "0.log").read_text()
        finally:
            for node in nodes.values():
                node.kill()
                node.wait()


def said_last(link) -> str:
    """Return the last that the SuperLink's log has of a node that comes or goes."""
    log = (link.folder / "log").read_text(errors="replace").splitlines()
    return [line for line in log if "Activated node" in line or "ActivateNode" in line][-1]
