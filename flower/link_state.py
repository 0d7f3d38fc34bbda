"""A SuperLink's state on a database, with plain SQL statements where Flower's methods are those of 1.34.0 or 1.42.0.

If the digest of Flower's methods differs, Flower's own stay.
"""

import hashlib
import inspect
import logging
from collections.abc import Callable, Iterable
from typing import Any

from aoi_fl.flower.plain import OBJECTS, STATE
from aoi_fl.flower.plain_messages import MESSAGES, of_the_decided
from aoi_fl.flower.seams import PLAIN
from aoi_fl.flower.transactions import in_turns

logger = logging.getLogger("flwr")
_STATE = (*STATE, *MESSAGES)
_DIGESTS = ("46b7e6c7697bfbb9", "f5d5d424c9cf3c84")  # of the methods of Flower 1.34.0 and of 1.42.0


def wrapped(kind: Any) -> dict[str, Callable[..., Any]]:
    """Return, by name, the methods of a class of Flower's that are wrapped."""
    methods: dict[str, Callable[..., Any]] = {"session": in_turns(kind.session)}
    if kind is classes()[1]:
        methods["get_message_res"] = of_the_decided(kind.get_message_res)
    return methods


def digest() -> str:
    """Return the digest of the replaced methods of Flower and of the methods that they call."""
    objects, state = classes()
    read = [(objects, f.__name__) for f in OBJECTS] + [(objects, "_mutation_session")]
    read += [(state, f.__name__) for f in _STATE]
    names = (
        "_claim_pending_object",
        "_cleanup_push_session",
        "get_message_ins",
        "get_message_res",
        "session",
    )
    read += [(state, name) for name in names]
    text = "".join(inspect.getsource(getattr(kind, name)) for kind, name in read)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@PLAIN.needed
def speak_plainly() -> bool:
    """Let a SuperLink in this process use plain statements; return whether it does.

    It also stores all messages of a request in one transaction.
    """
    if digest() not in _DIGESTS:
        logger.warning("This Flower differs from 1.34.0 and 1.42.0, so the SuperLink uses Flower's own SQL statements.")
        return False
    from flwr.superlink.servicer.runtime import runtime_handlers

    objects, state = classes()
    for kind, functions in ((objects, OBJECTS), (state, _STATE)):
        for name, method in ({function.__name__: function for function in functions} | wrapped(kind)).items():
            setattr(kind, name, method)
    handlers: Any = runtime_handlers
    push = handlers.push_messages

    def push_messages(request: Any, state: Any, task: Any) -> Any:
        if not hasattr(state, "session"):  # a state in memory
            return push(request, state, task)
        with state.session():
            return push(request, state, task)

    handlers.push_messages = push_messages
    return True


def classes() -> tuple[Any, Any]:
    """Return Flower's classes of the object store and of the link state."""
    from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState
    from flwr.supercore.object_store.sql_object_store import SqlObjectStore

    return SqlObjectStore, SqlLinkState


def open_state(path: str, plainly: bool) -> Any:
    """Open a SuperLink's state on a database, with plain statements or with Flower's methods."""
    from flwr.superlink.federation import NoOpFederationManager

    objects, state = classes()
    if plainly:
        objects = type("PlainStore", (objects,), {f.__name__: f for f in OBJECTS} | wrapped(objects))
        state = type("PlainState", (state,), {f.__name__: f for f in _STATE} | wrapped(state))
    store = objects(path)
    store.initialize()
    link_state = state(path, NoOpFederationManager(), store)
    link_state.initialize()
    return link_state


def announce(state: Any, run_id: int, object_ids: Iterable[str]) -> str:
    """Announce objects without children and return the session for their upload."""
    from flwr.proto.message_pb2 import ObjectTree

    session: str = state.start_session(run_id)
    for number in object_ids:
        state.preregister_object_tree(ObjectTree(object_id=number), session)
    return session
