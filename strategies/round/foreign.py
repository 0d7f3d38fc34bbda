"""Rounds in another loop than our own ``start``: a wrapper of Flower's, or a loop that calls the four steps itself.

A wrapper clips, counts and compares replies before it hands them on. A reply that it cannot read ends the run there,
and one error keeps all replies from us. So the grid's ``send_and_receive`` returns replies that have been checked, in
one form. The others wait for our own step, which drops and names them.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any

from flwr.app import Array, ArrayRecord, Message
from flwr.serverapp import Grid

from aoi_fl import protocol
from aoi_fl.flower.grids import Receive, receive_by, uploads
from aoi_fl.flower.replies import lost
from aoi_fl.protocol.arrays import model_key
from aoi_fl.protocol.coding import NONE
from aoi_fl.science.errors import ConfigError, NothingTrainedError
from aoi_fl.strategies.aggregation.flower import is_opaque
from aoi_fl.strategies.aggregation.private import ByPrivateMean
from aoi_fl.strategies.records import RunObserver
from aoi_fl.strategies.round.dispatch import Dispatch
from aoi_fl.strategies.round.exchange import Exchange
from aoi_fl.strategies.round.run import Run
from aoi_fl.strategies.validation import (
    Refused,
    Update,
    check_name,
    metrics_of,
    one_line,
    read_answer,
    read_update,
    some_of,
)

logger = logging.getLogger("flwr")
_MOST_IN_VAIN = 3  # rounds without an update after which another loop ends, unless the options set a number


class ForeignLoop:
    """Keeps the books of rounds in another loop, which does not say when a round, or the run, is over.

    Parameters
    ----------
    run, dispatch : the run, and the messages that it sends
    aggregate_train : the strategy's step
    """

    def __init__(
        self, run: Run, dispatch: Dispatch, aggregate_train: Callable[[int, Iterable[Message]], object]
    ) -> None:
        self._run, self._dispatch, self._aggregate_train = run, dispatch, aggregate_train
        self._outstanding = False  # the loop has not handed the round's replies on yet
        self._withheld = False  # nor had it when the round was over
        self._sieve: Sieve | None = None

    def refuse(self) -> None:
        """Refuse settings that only our own ``start`` can follow.

        Raises
        ------
        ConfigError
            Naming the setting and what to do.
        """
        start, leave = f"{self._run.strategy}.start", "Leave it out, or call start."
        options, private = self._run.options, isinstance(self._run.aggregation, ByPrivateMean)
        for key, value, allowed, why, remedy in (
            ("late-rounds", options.late_rounds, "0", "because it drops late replies", leave),
            ("serve_average", options.serve_average, "0", "because it evaluates its own model", leave),
            (
                "aggregation",
                "PrivateMean" * private,
                "left out",
                "because its number of rounds is unknown",
                "Call start.",
            ),
        ):
            if value:
                raise ConfigError(key, value, f"{allowed} in another loop than {start}, {why}", remedy)

    def is_over(self, round_: int) -> bool:
        """Tell whether a round is over, so that it cannot begin: a loop begins it in a second run."""
        round_at_hand = self._run.round
        over = round_at_hand.result is None and not self._outstanding
        return round_ < round_at_hand.number or (over and round_ == round_at_hand.number)

    def begin(self, grid: Grid) -> None:
        """Check the replies of the round that begins before the loop sees them."""
        self._outstanding, self._withheld = not self._run.last, False
        if self._outstanding:
            options = self._run.options
            self._sieve = Sieve(options.arrayrecord_key, options.weighted_by_key, grid.run.run_id)
            judge_replies(grid, self._judged, self._run.roster.packing)

    def settle(self, arrays: ArrayRecord) -> None:
        """Infer from the loop's model whether it made something of replies that it did not hand on."""
        self._collect_refused()
        if self._outstanding:
            self._outstanding, self._run.round.result = False, arrays
            self._withheld = arrays is self._run.round.model
            self._run.round.recorder.conclude(self._withheld)
            self._run.progress.trained |= not self._withheld
            self._check_training()

    def together(self, replies: Iterable[Message]) -> Iterable[Message]:
        """Return the replies that the loop hands on, and those that it was not shown."""
        return replies if self._sieve is None else self._sieve.together(replies)

    def conclude(self, arrays: ArrayRecord | None) -> None:
        """Note the model that a round has made; None: none."""
        if self._run.last:
            return
        round_ = self._run.round
        self._outstanding, round_.result = False, round_.model if arrays is None else arrays
        if not round_.recorder.record.declined:
            self._check_training()

    def leave(self) -> None:
        """Complete the ledger when the process ends.

        Where replies were never handed on, this is the first moment to log it. It is too late to fail the run.
        """
        run = self._run
        with suppress(NothingTrainedError):  # it is logged below
            self._collect_refused()
        run.close()
        self._withheld, self._outstanding = self._withheld or self._outstanding, False
        nothing = None if run.progress.trained else run.nothing_trained(self._withheld)
        if nothing is not None and not run.failed:
            logger.error("%s", nothing)
        if isinstance(run.observer, RunObserver):
            how = "another loop ran the rounds and reported no end"
            run.observer.run_ends(None if nothing else how, nothing)

    def _collect_refused(self) -> None:
        """Drop and name the replies that the loop was not shown, where it has handed nothing on either."""
        if self._outstanding and self._sieve is not None and self._sieve.holds:
            self._aggregate_train(self._run.round.number, ())

    def _check_training(self) -> None:
        """Warn of a round in which nothing was trained, like those before it; raise after several."""
        run = self._run
        if run.progress.trained:
            return
        most = run.options.max_empty_rounds or _MOST_IN_VAIN
        if run.progress.idle + 1 >= most:
            run.check_trained(self._withheld)
        nothing = run.nothing_trained(self._withheld)
        logger.warning("%s After %d such rounds the run fails.", nothing, most)

    def _judged(self, replies: list[Message]) -> list[Message]:
        """Return the replies that the loop may see; those of a training step are checked first."""
        if self._sieve is None or not any(self._dispatch.trained_by(reply) is not None for reply in replies):
            return replies
        return self._sieve.sort(replies, self._update_of)

    def _update_of(self, reply: Message) -> Update | None:
        """Return the update in a reply of this round's training; None: it is of another step.

        Raises
        ------
        Refused
            It cannot be used, or its client declines.
        """
        client = self._dispatch.trained_by(reply)
        if client is None:
            return None
        answer, options, model = read_answer(reply), self._run.options, self._run.round.model
        if answer is not None:
            check_name(answer.name, self._run.roster.own_name(client))
            if not answer.takes_part:
                raise Refused("it declines")
        return read_update(
            reply, model, options.weighted_by_key, None if options.compression == NONE else options.compression,
            arrays_key=options.arrayrecord_key, opaque=self._run.aggregation.opaque or is_opaque(model),
        )  # fmt: skip


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
        """Leave out replies without a metric that most others have: a wrapper may look it up."""
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
