"""Real SuperNodes that sleep, as `aoi enroll` has them, at a real SuperLink that counts them as connected meanwhile."""

import subprocess
import time
from collections import Counter

import pytest

from aoi_fl.flower.seams import CONTROL
from aoi_fl.flower.superlink import free_ports
from aoi_fl.lab.benchmarks.fleet.link import superlink
from tests.client.sleepers import played, registered, started

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
    pytest.mark.skipif(not CONTROL.there, reason=CONTROL.lost),
]


def test_sleeping_clients_rejoin_at_once_after_a_power_cut(tmp_path):
    with superlink() as link:
        control, starts = registered(link, tmp_path, CLIENTS), Counter[int]()
        nodes: dict[int, subprocess.Popen[bytes]] = {}

        def start(i: int, port: int, *options: str) -> None:
            kept = f"--session={tmp_path / f'{i}.session'}"
            nodes[i] = started(link, tmp_path, i, port, QUICK, kept, *options)
            starts[i] += 1

        def look_after() -> None:
            """Start the nodes that are due, as the timer does each minute."""
            for i, port in enumerate(free_ports(CLIENTS)):
                if i not in nodes or nodes[i].poll() is not None:
                    assert i not in nodes or nodes[i].returncode == 0, (tmp_path / f"{i}.log").read_text()
                    kept = tmp_path / f"{i}.session"
                    if not kept.exists() or not kept.read_text() or float(kept.read_text().split()[0]) <= time.time():
                        start(i, port, "--leave")

        try:
            look_after()
            alone = 0
            for lines in played(link, control, CLIENTS, 5, 20.0):
                look_after()
                alone += any(node.poll() is not None for node in nodes.values()) and len(control.online()) == CLIENTS
                rounds = [line for line in lines if "round" in line]
            assert sum(line["trained"] for line in rounds) >= 3 and not any(line["dropped"] for line in rounds), rounds
            assert alone and max(starts.values()) > 1  # somebody had ended, and was counted as connected
            for node in nodes.values():
                node.kill()
                node.wait()
            start(0, free_ports(1)[0])
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
