"""Two doors between a SuperLink and the app of a SuperNode: what arrives, and what leaves.

Both doors are in Flower's loop of the SuperNode, over gRPC and over HTTP. A message is received whole and examined
before the loop, and so the app, sees it. A reply is examined before the SuperLink learns of it, and leaves in a message
that is made here: no part of the app's envelope leaves.
"""

import copy
import hashlib
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeAlias

from flwr.app import Error, Message, RecordDict

from aoi_fl.flower.errors import DECLINED

_PATIENCE = 600.0  # seconds to wait for the next object of a reply from the app
_LOOK = 0.05
_LONGEST_TTL = 43_200.0
logger = logging.getLogger("flwr")
Release: TypeAlias = Callable[[Message, int], RecordDict | Error | None]
"""Returns what leaves instead of a reply of a size in bytes; None: the reply itself."""


class Keeper(Protocol):
    """Decides about messages and replies."""

    @property
    def binds(self) -> bool:
        """Whether the owner has rules, so that no SuperNode may run without the doors."""

    def admit(self, message: Message, app: str, content: RecordDict | None) -> Error | Release:
        """Return the error reply to a message that must not start the app, or the door of its reply.

        It is called first without the content.
        """


class GateDoors:
    """The two doors of one SuperNode.

    Parameters
    ----------
    keeper : decides
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._runs: dict[int, Any] = {}  # by Flower's id, as they were when they were first seen
        self._fabs: dict[int, Any] = {}  # of the latest run
        self._objects: dict[str, bytes] = {}  # of the latest message
        self._admitted: dict[str, tuple[Message, Release]] = {}

    @contextmanager
    def connection(self, make: Callable[..., Any], *arguments: Any, **more: Any) -> Iterator[tuple[Any, ...]]:
        """Open Flower's connection with a door for what arrives."""
        with make(*arguments, **more) as (node, receive, send, get_run, get_fab, pull, push, confirm):
            self._open = receive, send, get_run, get_fab, pull, push, confirm
            yield node, self._receive, send, self._get_run, self._get_fab, self._pull, push, confirm

    def push_messages(
        self, make: Callable[..., Any], *, state: Any, object_store: Any, send: Any, push_object: Any
    ) -> None:
        """Send the app's replies through a door."""
        send = partial(self._send, object_store, send, push_object)
        make(state=state, object_store=object_store, send=send, push_object=push_object)

    def _receive(self) -> tuple[Message, Any] | None:
        from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
        from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents, pull_objects
        from flwr.supercore.run import RunNotRunningException

        receive, send, _, _, pull, push, confirm = self._open
        if (found := receive()) is None:
            return None
        message, tree = found
        run = message.metadata.run_id
        try:
            app = self._app(run)
            verdict = self._keeper.admit(message, app, None)
            if not isinstance(verdict, Error):
                ids = list({part.object_id for part in iterate_object_tree(tree)})
                self._objects = pull_objects(ids, partial(pull, run))
                whole: Any = inflate_object_from_contents(tree.object_id, dict(self._objects))
                verdict = self._keeper.admit(message, app, whole.content)
        except RunNotRunningException:
            raise
        except Exception as problem:  # the SuperLink may have sent anything
            logger.warning("A message cannot be examined, and the app does not see it: %r", problem)
            verdict = Error(DECLINED, "the message cannot be examined")
        if not isinstance(verdict, Error):
            self._admitted = {message.metadata.message_id: (message, verdict)}
            return message, tree
        self._objects = {}
        try:
            self._leave(message, verdict, send, push, 0.0)
            confirm(run, message.metadata.message_id)
        except Exception as problem:
            logger.warning("A refusal cannot be sent: %r", problem)
        return None

    def _app(self, run: int) -> str:
        """Return the digest of a run's app, which must be the one that the SuperLink names."""
        if run not in self._runs:
            _, _, get_run, get_fab, *_ = self._open
            about = get_run(run)
            self._fabs = {run: _checked(get_fab(about.fab_hash, run), about.fab_hash)}
            self._runs[run] = about
        return str(self._runs[run].fab_hash)

    def _get_run(self, run: int) -> Any:
        return self._runs[run] if run in self._fabs else self._open[2](run)

    def _get_fab(self, digest: str, run: int) -> Any:
        return self._fabs.get(run) or _checked(self._open[3](digest, run), self._app(run))

    def _pull(self, run: int, object_id: str) -> bytes:
        return self._objects.pop(object_id)

    def _send(
        self, store: Any, send: Any, push: Any, message: Message, tree: Any, seconds: float
    ) -> tuple[set[str], str]:
        if (admitted := self._admitted.pop(message.metadata.reply_to_message_id, None)) is None:
            logger.warning("A reply to a message that was never admitted does not leave.")
            return set(), ""
        from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

        arrived, release = admitted
        contents: dict[str, bytes] = {}
        try:
            contents = _collected(store, tree)
            reply: Any = inflate_object_from_contents(tree.object_id, dict(contents))
            size = sum(map(len, contents.values()))
            leaves = release(message if message.has_error() else reply, size)
            del reply
            if leaves is None:
                ids, session = send(message, tree, seconds)
                return set(ids), str(session)
        except Exception as problem:  # the app may have sent anything
            logger.warning("A reply cannot be examined, and does not leave: %r", problem)
            leaves = Error(DECLINED, "the reply cannot be examined")
        self._leave(arrived, leaves, send, push, seconds, contents)
        return set(), ""

    def _leave(
        self,
        arrived: Message,
        leaves: RecordDict | Error,
        send: Any,
        push: Any,
        seconds: float,
        contents: dict[str, bytes] | None = None,
    ) -> None:
        """Send a message of our own in reply to one that arrived."""
        from flwr.supercore.inflatable.inflatable_object import (
            get_all_nested_objects,
            get_object_tree,
            no_object_id_recompute,
        )
        from flwr.supercore.inflatable.inflatable_utils import push_object_contents_from_iterable

        about, now = copy.copy(arrived.metadata), time.time()
        about.__dict__.update(
            _message_id="",
            _reply_to_message_id=about.message_id,
            _created_at=now,
            _src_node_id=about.dst_node_id,
            _dst_node_id=about.src_node_id,
            _src_task_id=about.dst_task_id,
            _dst_task_id=about.src_task_id,
            _ttl=min(_LONGEST_TTL, max(1.0, about.ttl - (now - about.created_at))),
        )
        made: Message = Message(leaves, metadata=about)  # type: ignore[call-overload]
        with no_object_id_recompute():
            about.__dict__["_message_id"] = made.object_id
            tree, objects = get_object_tree(made), get_all_nested_objects(made)
            missing, session = send(made, tree, seconds)
            parts = ((i, (contents or {}).get(i) or part.deflate()) for i, part in objects.items() if i in missing)
            push_object_contents_from_iterable(parts, partial(push, about.run_id, session))


def _checked(fab: Any, digest: str) -> Any:
    if hashlib.sha256(fab.content).hexdigest() != digest:
        raise ValueError("the SuperLink sends another app than it names")
    return fab


def _collected(store: Any, tree: Any) -> dict[str, bytes]:
    """Return the objects of a reply when the app has sent all of them."""
    from flwr.supercore.inflatable.inflatable_object import iterate_object_tree

    contents: dict[str, bytes] = {}
    for part in iterate_object_tree(tree):
        until = time.monotonic() + _PATIENCE
        while not (content := store.get(part.object_id)):
            if content is None or time.monotonic() > until:
                raise ValueError("an object of the reply is missing")
            time.sleep(_LOOK)
        contents[part.object_id] = content
    return contents
