"""A SuperLink's state on a database, with plain SQL statements where Flower's methods are those of 1.34.0 or 1.42.0.

If the digest of Flower's methods differs, Flower's own stay.
"""

import hashlib
import inspect
import logging
from collections.abc import Iterable
from typing import Any

from aoi_fl.flower.seams import PLAIN

logger = logging.getLogger("flwr")
_DIGESTS = ("e532113e8273de63", "e9b557b1af4abf30")  # of the methods of Flower 1.34.0 and of 1.42.0
# Methods of Flower that the replaced ones call, and that call them.
_BESIDE = ("_mutation_session", "_claim_pending_object", "_cleanup_push_session", "get_message_ins")


def classes(plainly: bool) -> tuple[Any, Any]:
    """Return the classes of the object store and of the link state: ours, or Flower's."""
    if plainly:
        from aoi_fl.flower.plain import PlainStore
        from aoi_fl.flower.plain_messages import PlainState

        return PlainStore, PlainState
    from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState
    from flwr.supercore.object_store.sql_object_store import SqlObjectStore

    return SqlObjectStore, SqlLinkState


def digest() -> str:
    """Return the digest of the replaced methods of Flower and of the methods that they call."""
    text = ""
    for flowers, ours in zip(classes(False), classes(True), strict=True):
        for name, method in inspect.getmembers(flowers, inspect.isfunction):
            if name in _BESIDE or getattr(ours, name) is not method:
                text += inspect.getsource(method)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@PLAIN.needed
def speak_plainly() -> bool:
    """Let a SuperLink in this process use plain statements; return whether it does.

    It also stores all messages of a request in one transaction.
    """
    if digest() not in _DIGESTS:
        logger.warning("This Flower differs from 1.34.0 and 1.42.0, so the SuperLink uses Flower's own SQL statements.")
        return False
    from flwr.server.superlink.linkstate import linkstate_factory
    from flwr.supercore.object_store import object_store_factory
    from flwr.superlink.servicer.runtime import runtime_handlers

    stores: Any = object_store_factory
    states: Any = linkstate_factory
    stores.SqlObjectStore, states.SqlLinkState = classes(True)
    handlers: Any = runtime_handlers
    push = handlers.push_messages

    def push_messages(request: Any, state: Any, task: Any) -> Any:
        if not hasattr(state, "session"):  # a state in memory
            return push(request, state, task)
        with state.session():
            return push(request, state, task)

    handlers.push_messages = push_messages
    return True


def open_state(path: str, plainly: bool) -> Any:
    """Open a SuperLink's state on a database, with plain statements or with Flower's methods."""
    from flwr.superlink.federation import NoOpFederationManager

    objects, state = classes(plainly)
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
