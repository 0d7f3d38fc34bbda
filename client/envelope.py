"""Remove our record from a message before the user's functions and Flower's mods see it.

Some of Flower's mods expect a single configuration record. And a function that stores or echoes its message should see
the message that Flower's own strategies send.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from flwr.app import Context, Message

from aoi_fl import protocol
from aoi_fl.flower.messages import with_content
from aoi_fl.protocol import ParticipationRequest
from aoi_fl.science.errors import ConfigError

# By the identity of the context of a user's function, for the length of the call.
_asks: dict[int, ParticipationRequest] = {}


@contextmanager
def opened(message: Message, context: Context, ask: ParticipationRequest) -> Iterator[Message]:
    """Yield the message without our record; :func:`ask_of` returns the record."""
    handed = with_content(message, message.content.copy())
    handed.content.pop(protocol.AOI, None)
    _asks[id(context)] = ask
    try:
        yield handed
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
