"""Poll: every client is asked every round, then the willing train: n small exchanges, and k with a model.

The literal policy. Who evaluates the model of a round is asked about the next one in the same message.
"""

from aoi_fl.strategies.wires.base import Wire
from aoi_fl.wire import protocol
from aoi_fl.wire.protocol import Ask


class Poll(Wire):
    """Asks everyone, unless it has been asked ahead."""

    name = protocol.POLL

    def ahead(self, question: Ask) -> Ask | None:
        """Let the question ride."""
        return question
