"""Our own record of a message, put aside before the user's functions and Flower's mods see the rest.

Some of Flower's mods expect one configuration record and no other, and a function that stores or echoes what it was
sent should find there what any strategy of Flower's would have sent it.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

from flwr.app import Context, Message

from aoi_fl import protocol
from aoi_fl.protocol import ParticipationRequest, packing
from aoi_fl.science.errors import ConfigError

# By the identity of the context that a user's function is called with, as long as the call lasts.
_asks: dict[int, ParticipationRequest] = {}


@contextmanager
def opened(message: Message, context: Context, ask: ParticipationRequest) -> Iterator[Message]:
    """Yield the message unpacked and without our own record, for functions that get it with this context."""
    handed = copy.copy(message)
    handed.content = packing.unpack(message.content).copy()
    handed.content.pop(protocol.AOI, None)
    _asks[id(context)] = ask
    try:
        yield handed
    finally:
        _asks.pop(id(context), None)


def ask_of(context: Context) -> ParticipationRequest:
    """Return the request in a message: run, round and terms.

    For a function registered with a :class:`~aoi_fl.client.ClientApp`, called with the context that it was given.

    Raises
    ------
    ConfigError : no message from an age-aware strategy is being answered with this context.
    """
    try:
        return _asks[id(context)]
    except KeyError:
        remedy = "Start the run with a strategy of aoi_fl.strategies, and ask only inside a registered function."
        raise ConfigError("context", None, "a message of an age-aware strategy", remedy) from None
