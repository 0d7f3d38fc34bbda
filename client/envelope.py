"""Open a message: unpack it, and take our record out of it before the user's functions and Flower's mods see it.

Some of Flower's mods expect a single configuration record. And a function that stores or echoes its message should see
the message that Flower's own strategies send.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from flwr.app import Context, Message, RecordDict

from aoi_fl import protocol
from aoi_fl.flower.messages import with_content
from aoi_fl.protocol import ParticipationRequest, packing
from aoi_fl.science.errors import ConfigError

# By the identity of the context of a user's function, for the length of the call.
_asks: dict[int, ParticipationRequest] = {}


@contextmanager
def opened(message: Message, context: Context) -> Iterator[tuple[ParticipationRequest | None, Message]]:
    """Yield our record, or None, and the unpacked message without it; :func:`ask_of` returns the record meanwhile."""
    content = packing.unpack(message.content).copy() if message.has_content() else RecordDict()
    record = content.pop(protocol.AOI, None)
    if record is None:
        yield None, with_content(message, content) if packing.is_packed(message) else message
        return
    ask = _asks[id(context)] = ParticipationRequest.read(record)
    try:
        yield ask, with_content(message, content)
    finally:
        _asks.pop(id(context), None)


def ask_of(context: Context) -> ParticipationRequest:
    """Return the request in the present message: run, round and terms.

    Call it in a function registered with a :class:`~aoi_fl.client.ClientApp`, with that function's context.

    Raises
    ------
    ConfigError : the context belongs to no call with a message of an age-aware strategy.
    """
    try:
        return _asks[id(context)]
    except KeyError:
        remedy = "Start the run with a strategy of aoi_fl.strategies, and ask only inside a registered function."
        raise ConfigError("context", None, "a message of an age-aware strategy", remedy) from None
