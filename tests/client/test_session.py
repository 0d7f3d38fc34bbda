"""What a SuperNode leaves to the next: it is let in at once after a power cut, and may end between its rounds."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest

from aoi_fl.client import session
from aoi_fl.client.poll_schedule import LONGEST_HEARTBEAT, LONGEST_SILENCE
from aoi_fl.client.session import LEAD, SHORTEST_ABSENCE, Session
from aoi_fl.flower.seams import BEATS, CONTROL
from aoi_fl.flower.superlink import free_ports
from benchmarks.fleet.link import superlink
from tests.client.sleepers import played, registered, started
from tests.refusals import refused

NOW = 1_800_000_000.0
CLIENTS, ROUNDS, SECONDS = 3, 5, 20.0
# A start takes some seconds here, and rounds are short.
QUICK = """
from aoi_fl.client import session, supernode
session.SHORTEST_ABSENCE, session.LEAD, supernode.PAUSE = 16.0, 14.0, 0.0
supernode.main()
"""


class Fleet:
    """Keeps what it is told; it may be away."""

    def __init__(self) -> None:
        self.said, self.away = [], False

    def stay(self, node, seconds):
        if self.away:
            raise grpc.RpcError
        self.said.append(("stay", node, seconds))

    def deactivate(self, node):
        self.said.append(("deactivate", node))
        raise grpc.RpcError  # its session is over already: nobody minds


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(session.time, "time", lambda: NOW)
    return tmp_path / "session"


def left(path) -> list[float]:
    return [float(word) for word in path.read_text().split()]


def test_a_new_session_ends_the_former_one(path):
    fleet = Fleet()
    first = Session(path)
    first.end_former(fleet)
    first.connected(7)
    del first
    assert not fleet.said and left(path) == [0, 0, 7]
    with refused("state-dir"), held(path):
        Session(path)
    Session(path).end_former(fleet)
    assert fleet.said == [("deactivate", 7)]


@contextmanager
def held(path) -> Iterator[None]:
    code = f"from pathlib import Path; from aoi_fl.client.session import Session; kept = Session(Path({str(path)!r}))"
    command = [sys.executable, "-c", f"import sys; {code}; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        yield
        other.stdin.close()


@pytest.mark.parametrize("text", ["", "17", "a b c\n", "1800000000 18000"])
def test_a_file_that_a_power_cut_has_torn_is_none(path, text):
    path.write_text(text)
    found = Session(path)
    assert (found.node, found.until) == (0, 0.0)


@pytest.mark.parametrize(
    ("nap", "wanted"),
    [
        (SHORTEST_ABSENCE - 1, None),
        (SHORTEST_ABSENCE, [NOW + SHORTEST_ABSENCE - LEAD, NOW + SHORTEST_ABSENCE, 7]),
        (6 * 3600.0, [NOW + LONGEST_SILENCE - LEAD, NOW + 6 * 3600, 7]),  # to say that it lives
    ],
)
def test_a_sleeping_node_counts_as_connected(path, nap, wanted):
    fleet, found = Fleet(), Session(path)
    found.connected(7)
    assert found.leave(fleet, NOW + nap) == (wanted is not None)
    assert left(path) == (wanted or [0, 0, 7])
    if wanted:
        ((_, node, interval),) = fleet.said
        assert node == 7 and interval <= LONGEST_HEARTBEAT and NOW + 2 * interval > wanted[0] + LEAD
        del found
        assert Session(path).until == NOW + nap  # what the next one goes by


def test_a_node_stays_awake_without_a_heard_heartbeat(path):
    fleet, found = Fleet(), Session(path)
    assert not found.leave(fleet, NOW + 3600)
    found.connected(7)
    fleet.away = True
    assert not found.leave(fleet, NOW + 3600) and left(path) == [0, 0, 7]


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.skipif(not (BEATS.there and CONTROL.there), reason=BEATS.lost)
def test_sleeping_clients_rejoin_at_once_after_a_power_cut(tmp_path):
    with superlink() as link:
        control, nodes, starts = registered(link, tmp_path, CLIENTS), [None] * CLIENTS, [0] * CLIENTS

        def start(i: int, port: int, *options: str) -> None:
            kept = f"--session={tmp_path / f'{i}.session'}"
            nodes[i] = started(link, tmp_path, i, port, kept, *options, program=("-c", QUICK))
            starts[i] += 1

        def look_after() -> None:
            """Start who is to be back, as the timer does each minute."""
            for i, port in enumerate(free_ports(CLIENTS)):
                if nodes[i] is None or nodes[i].poll() is not None:
                    assert nodes[i] is None or nodes[i].returncode == 0, (tmp_path / f"{i}.log").read_text()
                    kept = tmp_path / f"{i}.session"
                    if not kept.exists() or not kept.read_text() or left(kept)[0] <= time.time():
                        start(i, port, "--leave")

        try:
            look_after()
            alone = 0
            for lines in played(link, control, CLIENTS, ROUNDS, SECONDS):
                look_after()
                alone += any(node.poll() is not None for node in nodes) and len(control.online()) == CLIENTS
                rounds = [line for line in lines if "round" in line]
            assert sum(line["trained"] for line in rounds) >= 3 and not any(line["dropped"] for line in rounds), rounds
            assert alone and max(starts) > 1  # somebody had ended, and was counted as connected
            for node in nodes:
                node.kill()
                node.wait()
            start(0, *free_ports(1))
            time.sleep(20)
            assert nodes[0].poll() is None and "Activated" in said_last(link), (tmp_path / "0.log").read_text()
        finally:
            for node in nodes:
                if node is not None:
                    node.kill()
                    node.wait()


def said_last(link) -> str:
    """Return the last that the SuperLink's log has of a node that comes or goes."""
    log = (link.folder / "log").read_text(errors="replace").splitlines()
    return [line for line in log if "Activated node" in line or "ActivateNode" in line][-1]
