"""What a SuperNode leaves to the next: it is let in at once after a power cut, and may end between its rounds."""

import pytest

from aoi_fl.client import session
from aoi_fl.client.poll_schedule import LONGEST_HEARTBEAT, LONGEST_SILENCE
from aoi_fl.client.session import LEAD, SHORTEST_ABSENCE, Session
from aoi_fl.flower.calls import CallError
from tests.refusals import refused

NOW = 1_800_000_000.0


class Fleet:
    """Keeps what it is told; it may be away."""

    def __init__(self) -> None:
        self.said, self.away = [], False

    def stay(self, node, seconds):
        if self.away:
            raise CallError("away")
        self.said.append(("stay", node, seconds))

    def deactivate(self, node):
        self.said.append(("deactivate", node))
        raise CallError("away")  # its session is over already: nobody minds


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
    with refused("state-dir"):  # another SuperNode of this client
        Session(path)
    del first
    assert not fleet.said and left(path) == [0, 0, 7]
    Session(path).end_former(fleet)
    assert fleet.said == [("deactivate", 7)]


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
