"""What a wrapper of Flower's, or a loop of somebody else's, sees of a round's replies: those that can be used.

A wrapper clips, counts and compares replies before it hands them on. One that it cannot read ends the run there, and
one error keeps all of them from us. So the grid's ``send_and_receive`` hands it what has been judged, alike in form.
What is left out waits for our own step, which drops and names it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from flwr.app import Array, ArrayRecord, Message
from flwr.serverapp import Grid

from aoi_fl import protocol
from aoi_fl.flower.grids import Receive, receive_by, uploads
from aoi_fl.flower.replies import lost
from aoi_fl.protocol.arrays import model_key
from aoi_fl.strategies.exchange import Exchange
from aoi_fl.strategies.validation import Refused, Update, metrics_of, one_line, some_of


def judge_replies(grid: Grid, judge: Callable[[list[Message]], list[Message]], packing: Collection[int] = ()) -> None:
    """Have a grid's ``send_and_receive`` return what ``judge`` makes of the replies; a later call takes its place.

    ``packing`` are the nodes that read packed models.
    Over a network the messages are sent, and their replies read, as in a round of our own.
    """

    def receive(plain: Receive, messages: list[Message], timeout: float | None) -> list[Message]:
        if not uploads(grid):
            return judge(list(plain(messages, timeout=timeout)))
        training = any(protocol.category(message.metadata.message_type) == protocol.TRAIN for message in messages)
        seconds = float("inf") if timeout is None else timeout
        return judge(list(Exchange(grid, dict(enumerate(messages)), seconds, sequential=training, packing=packing)))

    receive_by(grid, receive)


class Sieve:
    """Sorts a round's replies into those that a wrapper may see, and those that are left to our own step.

    Parameters
    ----------
    arrays_key, examples_key : the names of the record with the model, and of the metric that weighs
    run_id : Flower's
    """

    def __init__(self, arrays_key: str, examples_key: str, run_id: int) -> None:
        self._arrays_key, self._examples_key, self._run_id = arrays_key, examples_key, run_id
        self._aside: dict[str, Message] = {}

    @property
    def holds(self) -> bool:
        """Whether replies are left to our own step."""
        return bool(self._aside)

    def sort(self, replies: Sequence[Message], read: Callable[[Message], Update | None]) -> list[Message]:
        """Return the replies that a wrapper may see; an error where none is left, which has it skip the round.

        ``read`` returns a reply's update, None of one that is not the round's, or raises :class:`Refused`.
        """
        self._aside = {}
        good = []
        for reply in replies:
            try:
                update = read(reply)
                if update is not None:
                    self._shape(reply, update)
            except Refused:
                self._aside.setdefault(reply.metadata.reply_to_message_id, reply)
            else:
                good.append(reply)
        good = self._alike(good)
        return good or [self._error(reply, "no reply of this round can be used") for reply in self._aside.values()]

    def together(self, replies: Iterable[Message]) -> Iterable[Message]:
        """Yield what was left out, then what a wrapper hands on, and leave nothing."""
        aside, self._aside = self._aside, {}
        yield from aside.values()
        yield from (reply for reply in replies if reply.metadata.reply_to_message_id not in aside)

    def _shape(self, reply: Message, update: Update) -> None:
        """Bring the model of a reply into the order and the types of the one that was sent; refuse further models."""
        records = [key for key, record in reply.content.items() if isinstance(record, ArrayRecord)]
        if len(records) > 1:
            raise self._refused(reply, f"{some_of(records)} hold arrays, and a wrapper takes one record of them")
        coded = update.answer is not None and update.answer.compression is not None
        if update.arrays and not coded and (key := model_key(reply.content, self._arrays_key)) is not None:
            reply.content[key] = ArrayRecord({name: Array(array) for name, array in update.arrays.items()})

    def _alike(self, replies: list[Message]) -> list[Message]:
        """Leave out who does not report a metric that most others do: a wrapper may look it up."""
        kinds = [_kinds(reply, self._examples_key) for reply in replies]
        usual = {kind for kind, count in Counter(k for own in kinds for k in own).items() if 2 * count > len(replies)}
        for reply, own in zip(replies, kinds, strict=True):
            if missing := sorted(name for name, _ in usual - own):
                self._refused(reply, f"its metrics lack {some_of(missing)}, which most others report alike")
        return [reply for reply in replies if reply.metadata.reply_to_message_id not in self._aside]

    def _refused(self, reply: Message, reason: str) -> Refused:
        """Put an error in the place of a reply that our own step would take."""
        self._aside[reply.metadata.reply_to_message_id] = self._error(reply, one_line(reason))
        return Refused(reason)

    def _error(self, reply: Message, reason: str) -> Message:
        error = lost(reply.metadata.reply_to_message_id, self._run_id, reason)
        error.metadata.__dict__["_src_node_id"] = reply.metadata.src_node_id
        return error


def _kinds(reply: Message, examples_key: str) -> set[tuple[str, type[Any]]]:
    """Return the metrics of a reply, each with whether it is a list or a number."""
    metrics = metrics_of(reply.content, examples_key) if reply.has_content() else None
    return {(name, list if isinstance(value, list) else float) for name, value in (metrics or {}).items()}
