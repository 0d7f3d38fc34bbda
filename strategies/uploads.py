"""Pulling replies one by one from a SuperLink, where one that is still being uploaded holds up nobody."""

import threading
from collections.abc import Iterable, Iterator

from flwr.app import Message
from flwr.serverapp import Grid

from aoi_fl.flower.replies import UNREADABLE, lost

_PATIENCE = 2.0  # seconds that the others wait for one upload


class _Pull(threading.Thread):
    """The pull of one reply, in the background."""

    def __init__(self, grid: Grid, message_id: str) -> None:
        super().__init__(daemon=True)  # the process may end before it does
        self._grid, self.message_id = grid, message_id
        self.replies: list[Message] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.replies = list(self._grid.pull_messages([self.message_id]))
        except Exception as error:
            self.error = error


class Uploads:
    """Pulls replies one by one, and waits but a moment for one that is still being uploaded.

    Flower's SuperLink hands a reply out as soon as a client announces it, and ``pull_messages`` then waits for its
    arrays: three minutes for a client that died meanwhile, hours for one that sends a little now and then. Here such a
    pull goes on in the background, where it may hold an update of its own, and a later call hands its reply out.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._slow: dict[str, _Pull] = {}

    def pull_messages(self, message_ids: Iterable[str]) -> Iterator[Message]:
        """Yield those of the replies to these messages that are there; one that cannot be read is an error reply.

        What else a pull raised is raised.
        """
        for message_id in message_ids:
            pull = self._slow.pop(message_id, None)
            if pull is None:
                pull = _Pull(self._grid, message_id)
                pull.start()
                pull.join(_PATIENCE)
            if pull.is_alive():
                self._slow[message_id] = pull
            elif isinstance(pull.error, UNREADABLE):
                reason = f"its reply cannot be read ({type(pull.error).__name__}: {pull.error})"
                yield lost(message_id, self._grid.run.run_id, reason)
            elif pull.error is not None:
                raise pull.error
            else:
                yield from pull.replies
