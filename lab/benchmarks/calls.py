"""The cost of a SuperLink's database per call: our statements against Flower's."""

import tempfile
from functools import partial
from pathlib import Path

from flwr.app import ConfigRecord

from aoi_fl.flower import link_state
from aoi_fl.flower.seams import PLAIN
from aoi_fl.lab.benchmarks.base import Skipped, alternate, ratio_row

CALLS, REPEATS = 40, 9
_NODES = 50


def run(data):
    """Measure the most frequent calls of nodes and ServerApp."""
    if not PLAIN.there:
        raise Skipped(PLAIN.lost)
    with tempfile.TemporaryDirectory() as folder:
        asked = [_Asked(Path(folder) / f"{name}.db", ours) for name, ours in (("ours", True), ("flower", False))]
        for what, call in _CALLS.items():
            times = alternate(*(partial(call, each) for each in asked), repeats=REPEATS)
            milliseconds = " and ".join(f"{1000 * each.process / CALLS:.2f}" for each in times)
            yield ratio_row(
                f"a SuperLink's database: {what}",
                "Flower 1.34.0's method",
                None,
                *times,
                note=f"{milliseconds} ms of a processor",
            )


class _Asked:
    """A state with a run and nodes."""

    def __init__(self, path, ours):
        self.state = link_state.open_state(str(path), ours)
        self.run_id = self.state.create_run("a", "1", "", {}, "@none/default", None, "", "flwr-serverapp")
        self.nodes = [self.state.create_node("", "", b"%d" % i, 30.0) for i in range(_NODES)]
        self._number = 0

    def objects(self):
        """Return new objects, registered in a new session."""
        self._number += 1
        made = [ConfigRecord({"n": self._number, "i": i}) for i in range(CALLS)]
        self.session = link_state.announce(self.state, self.run_id, [each.object_id for each in made])
        return [(each.object_id, each.deflate()) for each in made]


def _look(asked):
    for node in asked.nodes[:CALLS]:
        asked.state.get_message_ins(node, 1)


def _beat(asked):
    for node in asked.nodes[:CALLS]:
        asked.state.acknowledge_node_heartbeat(node, 30.0)


def _key(asked):
    for i in range(CALLS):
        asked.state.get_node_id_by_public_key(b"%d" % i)


def _exchange(asked):
    for number, content in asked.objects():
        asked.state.store_object(asked.run_id, asked.session, number, content)
        asked.state.store_traffic(asked.run_id, bytes_sent=0, bytes_recv=len(content))
        asked.state.get_object(asked.run_id, number)
        asked.state.object_store.delete(number)


_CALLS = {
    "a key is looked up": _key,
    "a look that finds no message": _look,
    "a heartbeat": _beat,
    "an object is announced, stored, counted, fetched and deleted": _exchange,
}
