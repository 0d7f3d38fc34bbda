"""Send messages over a network in parallel, poll for all replies at once, fetch complete ones.

Flower's ``pull_messages`` asks for replies and then waits for the objects of each, however long their upload takes. To
avoid the wait, a caller has to ask for one reply at a time. Here the two steps are separate: one call returns which of
many replies are announced, and each reply is fetched once its upload is complete.

Replies are not trusted. A reply becomes an error reply if it cannot be read, has too many objects, or makes the
SuperLink fail. Other clients' replies are not affected.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from typing import Any

from flwr.app import ArrayRecord, Error, Message, Metadata, RecordDict
from flwr.serverapp import Grid
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from aoi_fl.flower.errors import MESSAGE_UNAVAILABLE
from aoi_fl.flower.grids import is_broken_off, once, uploads
from aoi_fl.flower.messages import SERVER_NODE, sign
from aoi_fl.flower.seams import CALLS, GRID, REPLIES

AT_ONCE = 250  # messages in one poll
# Messages sent in one call. Flower announces all of them before it uploads the first, and a client polls for its
# announced message until it is complete. Two hundred such clients keep a SuperLink busy.
SENT_AT_ONCE = 20
_TRIES = 3  # calls for one reply before it counts as lost
# A reply may have _MOST times the objects of its message, and _MORE for metrics and names. A reply is large with more
# than _SOME objects above its message's.
_MOST, _MORE, _SOME = 4, 256, 32
_CHUNK = 1 << 20  # bytes of an array in one object, at least
_HANDS = 8  # parallel calls that send small messages or fetch small replies
_AHEAD = 32  # small replies that are fetched before the first of them is taken: so many are in memory
_FIRST_REST, _LONGEST_REST = 0.05, 0.5  # seconds between two attempts to fetch an incomplete reply
_KEPT = 1 << 16  # bytes of an object, at most, that is kept until its reply is complete


def send(grid: Grid, messages: Iterable[Message], *, large: bool) -> set[str]:
    """Send messages over a network in parallel batches and return their ids.

    With ``large`` messages, which hold models, only one batch is in memory at a time.
    """
    waiting = iter(messages)
    batches = iter(lambda: list(islice(waiting, SENT_AT_ONCE)), [])
    if large:
        return {number for some in batches for number in grid.push_messages(some)}
    with ThreadPoolExecutor(_HANDS, thread_name_prefix="messages") as hands:
        return {number for numbers in hands.map(grid.push_messages, batches) for number in numbers}


def batched(grid: Grid) -> bool:
    """Return whether a grid is Flower's grid over a network with its own ``pull_messages``."""
    if not REPLIES.there or not uploads(grid):
        return False
    flowers = getattr(import_module(f"flwr.superlink.grid.{GRID[0]}"), GRID[1])
    return isinstance(grid, flowers) and type(grid).pull_messages is flowers.pull_messages


# Errors of a decoder on invalid bytes; connection errors are not among them.
UNREADABLE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    DecodeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
# The metadata that a reply's envelope has, with default values.
_METADATA: dict[str, Any] = {
    "message_id": "",
    "src_node_id": 0,
    "dst_node_id": SERVER_NODE,
    "reply_to_message_id": "",
    "group_id": "",
    "created_at": 0.0,
    "ttl": 0.0,
    "message_type": "query",
}


@dataclass
class _Announced:
    """A reply without its content.

    Attributes
    ----------
    envelope, objects : its envelope and the ids of its objects
    awaited, kept : the objects still missing, and the small ones that are there
    again, rest : time of the next attempt to fetch it, and the pause before that, in seconds
    """

    envelope: Any
    objects: list[str]
    awaited: list[str] = field(default_factory=list)
    kept: dict[str, bytes] = field(default_factory=dict)
    again: float = 0.0
    rest: float = _FIRST_REST / 2
    failures: int = 0
    refused: str = ""
    large: bool = False  # many more objects than its message: fetched last, and not after the deadline

    def keep(self, part: str, content: bytes | None) -> None:
        """Keep a small object."""
        if content is not None and len(content) <= _KEPT:
            self.kept[part] = content


class Replies:
    """The replies to sent messages.

    Parameters
    ----------
    grid : a grid that :func:`batched` accepts
    large : whether replies hold models; they are fetched one by one, because each thread's heap would keep an array's
        memory
    sizes : number of objects of each message, by its id, else 0; a reply with many more is refused
    is_late : returns whether the deadline has passed; failed calls are not retried after it
    """

    def __init__(
        self,
        grid: Any,
        *,
        large: bool,
        sizes: Mapping[str, int],
        is_late: Callable[[], bool],
    ) -> None:
        from flwr.proto import message_pb2, runtime_pb2

        self._grid, self._messages, self._runtime = grid, message_pb2, runtime_pb2
        self._superlink: Any = getattr(grid, CALLS)
        self._run_id = grid.run.run_id
        self._announced: dict[str, _Announced] = {}
        self._sizes, self._is_late = sizes, is_late
        self._failures = Counter[str]()  # calls that the SuperLink broke off, by the message that they were about
        self._hands = None if large else ThreadPoolExecutor(_HANDS, thread_name_prefix="replies")

    def forget(self, message_ids: Iterable[str]) -> None:
        """Keep nothing of the replies to these messages."""
        for message_id in message_ids:
            self._announced.pop(message_id, None)
            self._failures.pop(message_id, None)

    def look(self, message_ids: Iterable[str]) -> list[str]:
        """Return, in order, the ids of messages with an announced or lost reply.

        One bad reply makes a SuperLink fail the call for all its messages. So a failed call is halved until the bad
        message is isolated. From then on that message has its own calls.
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
        """Poll for some messages and record the announced replies."""
        try:
            with once():
                answer = self._superlink.PullMessages(self._runtime.PullAppMessagesRequest(message_ids=message_ids))
        except Exception as error:
            if not is_broken_off(error):
                raise
            if len(message_ids) == 1:
                self._failures[message_ids[0]] += 1
            for half in (message_ids[: len(message_ids) // 2], message_ids[len(message_ids) // 2 :]):
                if len(message_ids) > 1 and not self._is_late():
                    self._pull(half)
            return
        for envelope, tree in zip(answer.messages_list, answer.message_object_trees, strict=True):
            number = envelope.metadata.reply_to_message_id
            sent = self._sizes.get(number, 0)
            most = most_objects(sent)
            reply = self._announced[number] = _Announced(envelope, objects_in(tree, most))
            reply.large = len(reply.objects) > sent + _SOME
            if len(reply.objects) > most:
                reply.refused = f"its reply is made of more than {most} objects, where its message has {sent}"

    def fetch(self, message_id: str) -> Message | None:
        """Return the announced reply to a message, or None while it is incomplete."""
        if message_id not in self._announced:
            return lost(message_id, self._run_id, "the SuperLink fails over its reply")
        reply = self._fetch(self._announced[message_id])
        if reply is not None:
            del self._announced[message_id]
        return reply

    def fetch_all(self, message_ids: list[str]) -> Iterator[Message]:
        """Yield the complete ones of the announced replies to messages, in order but large ones last.

        Without models they are fetched in parallel. Take all of them: one that was fetched and not taken is lost.
        """
        hands = self._hands
        message_ids = sorted(message_ids, key=lambda i: i in self._announced and self._announced[i].large)
        for reply in map(self.fetch, message_ids) if hands is None else self._fetched_ahead(hands, message_ids):
            if reply is not None:
                yield reply
            del reply  # the next one is decoded when this one is gone

    def _fetched_ahead(self, hands: ThreadPoolExecutor, message_ids: list[str]) -> Iterator[Message | None]:
        ahead = deque[Future[Message | None]]()
        for message_id in message_ids:
            ahead.append(hands.submit(self.fetch, message_id))
            if len(ahead) >= _AHEAD:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()

    def _fetch(self, reply: _Announced) -> Message | None:
        reply_id = reply.envelope.metadata.message_id
        if reply.refused:  # not confirmed either: to delete its objects takes a SuperLink as long as to store them
            return self._lost(reply, reply.refused)
        if time.monotonic() < reply.again and not self._is_late():
            return None
        try:
            contents = self._contents(reply)
        except LookupError as error:
            return self._lost(reply, str(error))
        except Exception as error:
            if not is_broken_off(error):
                raise
            reply.failures += 1
            return self._lost(reply, "the SuperLink fails over its reply") if reply.failures >= _TRIES else None
        if contents is None:
            reply.rest = min(2 * reply.rest, _LONGEST_REST)
            reply.again = time.monotonic() + reply.rest
            return None
        request = self._messages.ConfirmMessageReceivedRequest(
            node=self._grid.node, run_id=self._run_id, message_object_id=reply_id
        )
        try:
            with once():
                self._superlink.ConfirmMessageReceived(request)
        except Exception as error:  # then the SuperLink keeps the reply until the end of the run
            if not is_broken_off(error):
                raise
        try:
            return self._made(reply, content_of(reply_id, contents))
        except Exception as error:  # a decoder may raise any type on invalid bytes
            return self._lost(reply, f"its reply cannot be read ({type(error).__name__}: {error})")

    def _contents(self, reply: _Announced) -> dict[str, bytes] | None:
        """Return the objects of a reply; None while one of them is missing."""
        while reply.awaited:  # one by one, so that few large objects are fetched twice
            if (self._is_late() and reply.large) or (content := self._object(reply.awaited[-1])) is None:
                return None
            reply.keep(reply.awaited.pop(), content)
        contents: dict[str, Any] = dict(reply.kept)
        for part in reply.objects:
            if part not in contents:
                contents[part] = None if reply.large and self._is_late() else self._object(part)
        reply.awaited = [part for part, content in contents.items() if content is None]
        if not reply.awaited:
            return contents
        for part, content in contents.items():
            reply.keep(part, content)
        return None

    def _object(self, part: str) -> bytes | None:
        request = self._messages.PullObjectRequest(node=self._grid.node, run_id=self._run_id, object_id=part)
        with once():
            answer = self._superlink.PullObject(request)
        if not answer.object_found:
            raise LookupError(f"the SuperLink has given up the upload of the object {part}")
        return bytes(answer.object_content) if answer.object_available else None

    def _lost(self, reply: _Announced, reason: str) -> Message:
        """Return the error reply that Flower's grid returns for an abandoned upload."""
        return self._made(reply, Error(MESSAGE_UNAVAILABLE, reason))

    def _made(self, reply: _Announced, content: RecordDict | Error) -> Message:
        """Return a message with the envelope's metadata, which the SuperLink has checked.

        The metadata inside a reply may name another message or another node.
        """
        envelope = reply.envelope.metadata
        return _message(content, self._run_id, **{k: getattr(envelope, k, value) for k, value in _METADATA.items()})


def lost(message_id: str, run_id: int, reason: str) -> Message:
    """Return the error reply to a message after its own reply was lost."""
    return _message(Error(MESSAGE_UNAVAILABLE, reason), run_id, reply_to_message_id=message_id)


def _message(content: RecordDict | Error, run_id: int, **entries: Any) -> Message:
    entries = {**_METADATA, **entries, "run_id": run_id}
    try:
        metadata = Metadata(**entries)
    except ValueError:  # its message type is invalid
        metadata = Metadata(**{**entries, "message_type": _METADATA["message_type"]})
    reply: Message = Message(content, metadata=metadata)  # type: ignore[call-overload]
    return reply


def error_reply(reason: str, *, run_id: int, **entries: Any) -> Message:
    """Return an error reply with these metadata and a valid id."""
    reply = _message(Error(MESSAGE_UNAVAILABLE, reason), run_id, **entries)
    return sign(reply, reply.object_id)


def most_objects(sent: int) -> int:
    """Return the largest number of objects in a reply to a message of ``sent`` objects."""
    return _MOST * sent + _MORE


def objects_in(tree: Any, most: int | None = None) -> list[str]:
    """Return the distinct objects of an announced reply, children first, at most ``most`` + 1."""
    objects: dict[str, None] = {}
    waiting = [(tree, False)]
    while waiting and (most is None or len(objects) <= most):
        part, done = waiting.pop()
        if done:
            objects.setdefault(part.object_id)
        else:
            waiting.append((part, True))
            waiting += [(child, False) for child in reversed(part.children)]
            if most is not None and len(waiting) > 2 * most + 2:
                return [str(i) for i in range(most + 1)]
    return list(objects)


def size_of(content: RecordDict) -> int:
    """Return the largest number of objects of a message with these records."""
    arrays = (a for record in content.values() if isinstance(record, ArrayRecord) for a in record.values())
    return 2 + len(content) + sum(2 + len(array.data) // _CHUNK for array in arrays)


def content_of(message_id: str, objects: dict[str, bytes]) -> RecordDict | Error:
    """Return a message's content, decoded from its objects.

    Raises
    ------
    Exception : of any type: the objects are untrusted and form no message.
    """
    from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

    message = inflate_object_from_contents(message_id, objects)
    if not isinstance(message, Message):
        raise TypeError(f"a {type(message).__name__} instead of a message")
    content = message.error if message.has_error() else message.content
    if not isinstance(content, RecordDict | Error):
        raise TypeError(f"a message with a {type(content).__name__} instead of records")
    return content
