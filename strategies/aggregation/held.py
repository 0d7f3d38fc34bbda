"""Updates that are judged before a subclass's own ``aggregate_train`` sees them."""

from collections.abc import Sequence

from flwr.app import Array, ArrayRecord, Message, MetricRecord

from aoi_fl import protocol
from aoi_fl.protocol.arrays import model_key
from aoi_fl.strategies.aggregation.flower import is_opaque
from aoi_fl.strategies.plan import RoundOptions
from aoi_fl.strategies.validation import Update


class HeldUpdates:
    """Keeps the accepted replies of a round, in the model's own types, for a step that is not ours.

    Attributes
    ----------
    replies : the accepted replies by client, as Flower's FedAvg would receive them
    weights : ω by client
    used : the clients whose updates came back for the aggregation; None while none was asked for it
    """

    def __init__(self, options: RoundOptions) -> None:
        self._options, self.opaque = options, False
        self.replies: dict[int, Message] = {}
        self.weights: dict[int, float] = {}
        self.used: set[int] | None = None

    def begin(self, round_: int, model: ArrayRecord) -> None:
        """Start with no reply; a model of bytes is the step's own to judge."""
        self.opaque = is_opaque(model)

    def add(self, client: int, reply: Message, update: Update, weight: float) -> None:
        """Keep a reply, decoded, without our own record."""
        if update.arrays and (key := model_key(reply.content, self._options.arrayrecord_key)) is not None:
            reply.content[key] = ArrayRecord({k: Array(v) for k, v in update.arrays.items()})
        reply.content.pop(protocol.AOI, None)
        self.replies[client], self.weights[client] = reply, weight

    def finish(self) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return nothing: the step makes the model."""
        return None, None

    def in_order(self) -> Sequence[Message]:
        """Return the replies in client order."""
        return [reply for _, reply in sorted(self.replies.items())]
