"""Real SuperNodes that sleep, as `aoi enroll` has them, at a real SuperLink that counts them as connected meanwhile."""

import time
from contextlib import ExitStack

import pytest

from aoi_fl.flower.seams import BEATS, CONTROL
from aoi_fl.flower.superlink import free_ports
from benchmarks.fleet.link import superlink
from tests.client.sleepers import played, registered, started

CLIENTS, ROUNDS, SECONDS = 3, 8, 12.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.skipif(not (BEATS.there and CONTROL.there), reason=BEATS.lost),
]


def test_they_are_there_for_their_rounds_and_hardly_look_in_between(tmp_path):
    with superlink() as link, ExitStack() as running:
        control, looks = registered(link, tmp_path, CLIENTS), 0
        for i, port in enumerate(free_ports(CLIENTS)):
            node = started(link, tmp_path, i, port)
            running.callback(node.wait)
            running.callback(node.kill)
        for lines in played(link, control, CLIENTS, ROUNDS, SECONDS):
            if not looks and any(line.get("round") == 1 for line in lines):
                looks, first = looked(link), time.monotonic()
        assert control.online() == CLIENTS
        rounds = [line for line in lines if "round" in line]
        assert sum(line["trained"] for line in rounds) >= 4 and not any(line["dropped"] for line in rounds)
        awake = CLIENTS * (time.monotonic() - first) / 3.0  # if each looked every three seconds, as Flower's own
        assert looked(link) - looks < 0.7 * awake  # on a busy machine rounds are late, and they look until they come


def looked(link) -> int:
    return (link.folder / "log").read_text(errors="replace").count("[Fleet.PullMessages]")
