"""A federation on one machine with its messages counted, both ways."""

import tempfile
from typing import NamedTuple

from aoi_fl import protocol
from aoi_fl.flower.messages import SERVER_NODE, bytes_of, context
from aoi_fl.server.engine.local import LocalGrid


class Passed(NamedTuple):
    """A message: its round and bytes, whether it has arrays, and whether it is a reply."""

    round: int
    size: int
    with_arrays: bool
    is_reply: bool


class _CountingGrid(LocalGrid):
    passed: list[Passed]
    round_ = 0

    def push_messages(self, messages):
        """Count and send."""
        messages = list(messages)
        ids = super().push_messages(messages)
        for message in messages:
            self.round_ = int(message.content[protocol.AOI]["round"])
            self._count(message, False)
        return ids

    def pull_messages(self, message_ids):
        """Receive and count."""
        replies = list(super().pull_messages(message_ids))
        for reply in replies:
            self._count(reply, True)
        return replies

    def _count(self, message, is_reply):
        has = message.has_content() and protocol.ARRAYS in message.content
        self.passed.append(Passed(self.round_, bytes_of(message), has, is_reply))


def counted(keys):
    """Run a federation with these run keys, and return its messages."""
    from aoi_fl.config.run import RunConfig
    from aoi_fl.learning.client_app import app as client_app
    from aoi_fl.server.app import app as server_app

    with tempfile.TemporaryDirectory() as folder:
        config = RunConfig.parse({"run-name": "counted", **keys, "runs-dir": folder}).flat()
        grid = _CountingGrid(client_app, config, keys["num-clients"])
        grid.passed = []
        server_app(grid, context(grid.run.run_id, SERVER_NODE, config))
    return grid.passed
