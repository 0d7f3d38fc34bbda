"""Real SuperNodes that sleep, as `aoi enroll` has them, at a real SuperLink that counts them as connected meanwhile."""

import re
import time
from collections import Counter
from contextlib import ExitStack

import pytest

from aoi_fl.client.poll_schedule import LONGEST_LOOK
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


def test_sleepers_wake_for_their_rounds_only(tmp_path):
    with superlink() as link, ExitStack() as running:
        control = registered(link, tmp_path, CLIENTS)
        for i, port in enumerate(free_ports(CLIENTS)):
            node = started(link, tmp_path, i, port)
            running.callback(node.wait)
            running.callback(node.kill)
        looks, last, silence = Counter(), {}, {}
        for lines in played(link, control, CLIENTS, ROUNDS, SECONDS):
            rounds = [line for line in lines if "round" in line]
            now, before, looks = time.monotonic(), looks, looked(link)
            for node in looks:
                if looks[node] == before[node]:
                    silence[node] = max(silence.get(node, 0.0), now - last[node])
                else:
                    last[node] = now
        assert len(control.online()) == CLIENTS
        assert sum(line["trained"] for line in rounds) >= 4 and not any(line["dropped"] for line in rounds)
        assert len(silence) == CLIENTS and min(silence.values()) > SECONDS > 3 * LONGEST_LOOK


def looked(link) -> Counter[str]:
    """How often each node has looked for messages."""
    return Counter(
        re.findall(r"\[Fleet.PullMessages\] node_id=(\d+)", (link.folder / "log").read_text(errors="replace"))
    )
