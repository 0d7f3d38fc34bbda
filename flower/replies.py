"""Messages over gRPC, sent by several hands, and their replies, looked for together and fetched when they are whole.

Flower's ``pull_messages`` asks for replies and then waits for the objects of each, however long their upload takes; so
whoever will not wait has to ask for one reply at a time. Here the two are apart: one call says which of many replies
have been announced, and each is fetched when all of it is there.

A client is not trusted with its reply. What cannot be read, has more objects than an answer to its message can have, or
makes the SuperLink fail, becomes an error reply of that client. Other replies do not depend on it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from flwr.app import ArrayRecord, Error, Message, Metadata, RecordDict
from flwr.serverapp import Grid
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from aoi_fl.flower.errors import MESSAGE_UNAVAILABLE
from aoi_fl.flower.grids import is_broken_off, once
from aoi_fl.flower.messages import SERVER_NODE, sign
from aoi_fl.flower.seams import REPLIES

AT_ONCE = 250  # messages asked for in one call
# Messages sent in one call. Flower announces all of them before it uploads the first, and a client that has found its
# message asks for it again and again until it is there: two hundred that wait keep a SuperLink from all else.
SENT_AT_ONCE = 20
_TRIES = 3  # of a call for one reply that the SuperLink breaks off each time
# The objects of a reply, at most: so many times those of its message, and some more for metrics and names. Most replies
# have only some more than their messages.
_MOST, _MORE, _SOME = 4, 256, 32
_CHUNK = 1 << 20  # bytes of an array in one object, at least
_HANDS = 8  # calls that send small messages, or fetch parts of small replies, at the same time


def send(grid: Grid, messages: Iterable[Message], *, large: bool) -> set[str]:
    """Send messages over a network, the first on their way while the next are pushed, and return their numbers.

    Flower uploads by as many threads as there are cores, each call in its turn among those of all nodes. Of ``large``
    messages, which hold models, one call's are in memory at a time.
    """
    waiting = iter(messages)
    batches = iter(lambda: list(islice(waiting, SENT_AT_ONCE)), [])
    if large:
        return {number for some in batches for number in grid.push_messages(some)}
    with ThreadPoolExecutor(_HANDS, thread_name_prefix="messages") as hands:
        return {number for numbers in hands.map(grid.push_messages, batches) for number in numbers}


def batched(grid: Grid) -> bool:
    """Tell whether a grid is Flower's own over gRPC, and pulls as that does."""
    if not REPLIES.there:
        return False
    from flwr.superlink.grid.grpc_grid import GrpcGrid

    return isinstance(grid, GrpcGrid) and type(grid).pull_messages is GrpcGrid.pull_messages


# What a decoder raises over a peer's bytes. A SuperLink that is gone is another matter.
UNREADABLE = (
    ArithmeticError, AssertionError, AttributeError, DecodeError, LookupError, MemoryError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip
# What an envelope tells of a reply, and what stands where it tells nothing.
_TOLD: dict[str, Any] = {
    "message_id": "", "src_node_id": 0, "dst_node_id": SERVER_NODE, "reply_to_message_id": "", "group_id": "",
    "created_at": 0.0, "ttl": 0.0, "message_type": "query",
}  # fmt: skip


@dataclass
class _Announced:
    """A reply without its content: its envelope, the objects that it is made of, and those that were not there yet."""

    envelope: Any
    objects: list[str]
    awaited: list[str] = field(default_factory=list)
    failures: int = 0
    refused: str = ""
    large: bool = False  # of many more objects than its message: fetched last, and not after the deadline


class Replies:
    """The replies to messages that were sent.

    Parameters
    ----------
    grid : one that :func:`batched` accepts
    large : whether replies hold models, whose objects are fetched one after another: the heap of each thread would keep
        an array's memory
    sizes : of how many objects each message is made, by its number: a reply of many more is refused
    is_late : tells whether the deadline has passed, at which calls that fail are no longer tried again
    """

    def __init__(
        self,
        grid: Any,
        *,
        large: bool = False,
        sizes: Mapping[str, int] | None = None,
        is_late: Callable[[], bool] = lambda: False,
    ) -> None:
        from flwr.proto import message_pb2, runtime_pb2

        self._grid, self._messages, self._runtime = grid, message_pb2, runtime_pb2
        self._run_id = grid.run.run_id
        self._announced: dict[str, _Announced] = {}
        self._sizes, self._is_late = sizes or {}, is_late
        self._failures: Counter[str] = (
            Counter()
        )  # calls that the SuperLink broke off, by the message that they were about
        hands = None if large else ThreadPoolExecutor(_HANDS, thread_name_prefix="replies")
        self._map: Callable[..., Iterable[Any]] = hands.map if hands else map

    def look(self, message_ids: Iterable[str]) -> list[str]:
        """Return which of these messages have a reply that is announced, or cannot be had, in their order.

        A SuperLink fails over all messages of a call where it fails over one. So a call that fails is divided until the
        message is found, and that is asked for alone from then on.
        """
        wanted = list(message_ids)
        unknown = [message_id for message_id in wanted if message_id not in self._announced]
        suspects = [message_id for message_id in unknown if 0 < self._failures[message_id] < _TRIES]
        sound = iter([message_id for message_id in unknown if not self._failures[message_id]])
        while some := list(islice(sound, AT_ONCE)):
            self._pull(some)
        for message_id in suspects:
            self._pull([message_id])
        return [i for i in wanted if i in self._announced or self._failures[i] >= _TRIES]

    def _pull(self, message_ids: list[str]) -> None:
        """Take note of the replies to some messages, as far as they are announced."""
        try:
            with once():
                found = self._grid._stub.PullMessages(self._runtime.PullAppMessagesRequest(message_ids=message_ids))
        except Exception as error:
            if not is_broken_off(error):
                raise
            if len(message_ids) == 1:
                self._failures[message_ids[0]] += 1
            for half in (message_ids[: len(message_ids) // 2], message_ids[len(message_ids) // 2 :]):
                if len(message_ids) > 1 and not self._is_late():
                    self._pull(half)
            return
        for envelope, tree in zip(found.messages_list, found.message_object_trees, strict=True):
            number = envelope.metadata.reply_to_message_id
            most = most_objects(self._sizes[number]) if number in self._sizes else None
            objects = objects_in(tree, most)
            reply = _Announced(envelope, objects)
            if most is not None and len(objects) > most:
                reply.refused = (
                    f"its reply is made of more than {most} objects, where its message has {self._sizes[number]}"
                )
            reply.large = most is not None and len(objects) > self._sizes[number] + _SOME
            self._announced[number] = reply

    def small_first(self, message_ids: list[str]) -> list[str]:
        """Return messages in their order, but for those whose replies are large: they come last."""
        return sorted(message_ids, key=lambda i: i in self._announced and self._announced[i].large)

    def fetch(self, message_id: str) -> Message | None:
        """Return the announced reply to a message; None while it is not whole."""
        if message_id not in self._announced:
            return lost(message_id, self._run_id, "the SuperLink fails over its reply")
        reply = self._fetch(self._announced[message_id])
        if reply is not None:
            del self._announced[message_id]
        return reply

    def _fetch(self, reply: _Announced) -> Message | None:
        reply_id = reply.envelope.metadata.message_id
        if reply.refused:  # nor is it given back: to forget so much takes a SuperLink as long as to keep it
            return self._lost(reply, reply.refused)
        try:
            while reply.awaited:  # one by one: what has come is not fetched again and again
                if (self._is_late() and reply.large) or self._object(reply.awaited[-1]) is None:
                    return None
                reply.awaited.pop()
            pull = self._object_in_time if reply.large else self._object
            found = dict(zip(reply.objects, self._map(pull, reply.objects), strict=True))
        except LookupError as error:
            return self._lost(reply, str(error))
        except Exception as error:
            if not is_broken_off(error):
                raise
            reply.failures += 1
            return self._lost(reply, "the SuperLink fails over its reply") if reply.failures >= _TRIES else None
        if awaited := [part for part, content in found.items() if content is None]:
            reply.awaited = awaited
            return None
        request = self._messages.ConfirmMessageReceivedRequest(
            node=self._grid.node, run_id=self._run_id, message_object_id=reply_id
        )
        try:
            with once():
                self._grid._stub.ConfirmMessageReceived(request)
        except Exception as error:  # then the SuperLink keeps it until the run is over
            if not is_broken_off(error):
                raise
        try:
            return self._made(reply, content_of(reply_id, found))
        except Exception as error:  # whatever a peer's bytes make of the decoder
            return self._lost(reply, f"its reply cannot be read ({type(error).__name__}: {error})")

    def _object_in_time(self, part: str) -> bytes | None:
        return None if self._is_late() else self._object(part)

    def _object(self, part: str) -> bytes | None:
        pull: Callable[..., Any] = self._grid._stub.PullObject
        request = self._messages.PullObjectRequest(node=self._grid.node, run_id=self._run_id, object_id=part)
        with once():
            answer = pull(request)
        if not answer.object_found:
            raise LookupError(f"the SuperLink has given up the upload of the object {part}")
        return bytes(answer.object_content) if answer.object_available else None

    def _lost(self, reply: _Announced, reason: str) -> Message:
        """Return what Flower's grid returns where an upload has been given up."""
        return self._made(reply, Error(MESSAGE_UNAVAILABLE, reason))

    def _made(self, reply: _Announced, content: RecordDict | Error) -> Message:
        """Return a message with the envelope's metadata: by that the SuperLink knows a reply, the rest is its client's.

        A reply may tell within that it answers another message, or comes from another node.
        """
        envelope = reply.envelope.metadata
        return _message(content, self._run_id, {k: getattr(envelope, k, value) for k, value in _TOLD.items()})


def lost(message_id: str, run_id: int, reason: str) -> Message:
    """Return an error reply to a message whose own reply cannot be had."""
    return _message(Error(MESSAGE_UNAVAILABLE, reason), run_id, {**_TOLD, "reply_to_message_id": message_id})


def _message(content: RecordDict | Error, run_id: int, told: dict[str, Any]) -> Message:
    try:
        metadata = Metadata(run_id=run_id, **told)
    except ValueError:  # the type of its message is none
        metadata = Metadata(run_id=run_id, **{**told, "message_type": _TOLD["message_type"]})
    made: Message = Message(content, metadata=metadata)  # type: ignore[call-overload]
    return made


def error_reply(reason: str, **told: Any) -> Message:
    """Return an error reply with these entries of the metadata, and with the number that it gets on its way."""
    run_id = told.pop("run_id")
    made = _message(Error(MESSAGE_UNAVAILABLE, reason), run_id, {**_TOLD, **told})
    return sign(made, made.object_id)


def most_objects(sent: int) -> int:
    """Return of how many objects a reply may be made, if its message is made of ``sent``."""
    return _MOST * sent + _MORE


def objects_in(tree: Any, most: int | None = None) -> list[str]:
    """Return the different objects of a reply, children first, as it is announced; no more than one above ``most``."""
    found: dict[str, None] = {}
    waiting = [(tree, False)]
    while waiting and (most is None or len(found) <= most):
        part, done = waiting.pop()
        if done:
            found.setdefault(part.object_id)
        else:
            waiting.append((part, True))
            waiting += [(child, False) for child in reversed(part.children)]
            if most is not None and len(waiting) > 2 * most + 2:
                return [str(i) for i in range(most + 1)]
    return list(found)


def size_of(content: RecordDict) -> int:
    """Return of how many objects a message with these records is made, at most."""
    arrays = (a for record in content.values() if isinstance(record, ArrayRecord) for a in record.values())
    return 2 + len(content) + sum(2 + len(array.data) // _CHUNK for array in arrays)


def content_of(message_id: str, objects: dict[str, bytes]) -> RecordDict | Error:
    """Return what a message holds, from the objects that it is made of.

    Raises
    ------
    Exception : of any kind: the objects are a peer's, and make no message.
    """
    from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

    message = inflate_object_from_contents(message_id, objects)
    if not isinstance(message, Message):
        raise TypeError(f"a {type(message).__name__} in place of a message")
    content = message.error if message.has_error() else message.content
    if not isinstance(content, RecordDict | Error):
        raise TypeError(f"a message of a {type(content).__name__} in place of records")
    return content
