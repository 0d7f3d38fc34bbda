"""Checks of a reply before it may touch the model, so that no client can end the run."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

from aoi_fl import protocol
from aoi_fl.flower.errors import CLIENT_APP_CRASHED, DECLINED
from aoi_fl.protocol import DECLINED_BY, MAX_EXAMPLES, MOST, ParticipationReply, Record, coding, npy
from aoi_fl.protocol.arrays import model_key
from aoi_fl.protocol.log import logger
from aoi_fl.protocol.measures import TRAINING, measured
from aoi_fl.science.errors import printable
from aoi_fl.science.types import Arrays

R = TypeVar("R", bound=Record)
_HEADER = 1024  # bytes that NumPy's file header may add to an array
_LONGEST_REASON = 100_000  # characters of a peer's error that are read, the last ones
_PLAIN_REASON = re.compile(r"<class '([\w.]{1,200})'>:<'(.*)'>\s*", re.DOTALL)
_MOST_METRICS, _LONGEST_METRIC, _MOST_VALUES = 256, 256, 1 << 14  # of a reply; characters of a name; numbers in all
_MAGIC = b"\x93NUMPY"


class Refused(Exception):
    """A reply is dropped; the message says why, for log and ledger, in one line whatever the peer sent."""

    def __init__(self, reason: str) -> None:
        super().__init__(one_line(reason))


def one_line(text: str) -> str:
    """Return what a peer wrote as it may stand in a log: short, and nothing but what can be printed."""
    return printable(text[:500])


def some_of(names: Sequence[str]) -> str:
    """Return names for a log: the first five, and how many more there are."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


@dataclass(frozen=True)
class Update:
    """A reply that passed: arrays by name, number of examples, mean training loss if reported, and the client's answer.

    ``examples`` is a fraction where another metric weighs.
    ``arrays`` is empty where the model is bytes of no constant shape, for the aggregation alone to read.
    """

    arrays: Arrays
    examples: float
    loss: float | None
    answer: ParticipationReply | None


def read_record(reply: Message, kind: type[R]) -> R:
    """Return our own record of a reply, or raise :class:`Refused`."""
    _check_content(reply)
    try:
        return kind.read(reply.content[protocol.AOI])
    except Exception as error:  # whatever a peer has sent
        what = "answer" if kind is ParticipationReply else kind.__name__.lower()
        raise Refused(f"malformed {what}: {error}") from error


def check_name(name: str, own: str) -> None:
    """Refuse a reply in which a client goes by another name than its own."""
    if name != own:
        raise Refused(f"it calls itself {name!r}, which is not its name")


def read_answer(reply: Message) -> ParticipationReply | None:
    """Return the client's own answer with an update or a decline, or None if its app is not age-aware."""
    _check_content(reply)
    return read_record(reply, ParticipationReply) if protocol.AOI in reply.content else None


def declining_rule(reply: Message) -> str | None:
    """Return the owner's rule by which a device's gate has refused a message, or None."""
    reason = (reply.error.reason or "") if reply.has_error() and reply.error.code == DECLINED else ""
    return one_line(reason.removeprefix(DECLINED_BY)) if reason.startswith(DECLINED_BY) else None


def read_update(
    reply: Message,
    model: ArrayRecord,
    examples_key: str,
    compression: str | None = None,
    *,
    arrays_key: str = protocol.ARRAYS,
    opaque: bool = False,
) -> Update:
    """Check a training reply against the model that was sent, and decode it.

    Parameters
    ----------
    reply : the client's reply
    model : names, shapes and types that its arrays must have; another floating type is brought to the model's
    examples_key : the metric that holds the number of examples
    compression : requested coding of the update; a client without it may send plain arrays
    arrays_key : the name of the record with the update, where the reply has more than one of arrays
    opaque : leave the arrays unread, for the aggregation to judge

    Raises
    ------
    Refused
        An error, missing or foreign arrays, another name, shape or type, a NaN or Inf, examples or a loss out of range,
        another code than was asked for, or scales that are none.
    """
    answer = read_answer(reply)
    try:
        examples, metrics = _examples(reply, examples_key)
        loss = measured(metrics, TRAINING)
        if loss is not None and not abs(loss) <= MOST:
            raise Refused(f"training loss {loss}")
        if (key := model_key(reply.content, arrays_key)) is None:
            count = sum(isinstance(record, ArrayRecord) for record in reply.content.values())
            raise Refused(f"{count} array records in place of one, and none of them is called {arrays_key!r}")
        record = cast(ArrayRecord, reply.content[key])
        if opaque:
            return Update({}, examples, loss, answer)
        if answer is None or answer.compression is None:
            return Update(_decode(record, model), examples, loss, answer)
        if answer.compression != compression:
            raise Refused(f"its update is compressed as {answer.compression!r}, asked for is {compression or 'none'!r}")
        codes = _decode(record, model, compression)
        return Update(_expand(codes, answer.scales, model, compression), examples, loss, answer)
    except Refused:
        raise
    except Exception as error:  # whatever a peer has sent
        raise Refused(f"its update cannot be read ({type(error).__name__}: {error})") from error


def check_metrics(reply: Message, examples_key: str) -> list[str]:
    """Return the metrics of an evaluation that are NaN or infinite; the others are good.

    A few numbers near the largest that there is make every mean infinite, and no model does that badly.

    Raises
    ------
    Refused
        It is an error, has no number of examples, a metric beyond :data:`MOST`, or not one good metric.
    """
    _check_content(reply)
    _, metrics = _examples(reply, examples_key)
    bad = [key for key, value in metrics.items() if not is_bounded(value)]
    for key in bad:
        if np.isfinite(np.asarray(metrics[key], np.float64)).all():
            raise Refused(f"metric {key} is beyond {MOST:g}")
    if bad and len(bad) == len(metrics) - 1:
        raise Refused(f"metric {bad[0]} is not finite")
    return bad


def is_bounded(value: object) -> bool:
    """Tell whether a metric, a number or a list of them, is finite and at most :data:`MOST` in size."""
    return bool((np.abs(np.asarray(value, np.float64)) <= MOST).all())


def metrics_of(content: RecordDict, examples_key: str) -> MetricRecord | None:
    """Return the metric record of a reply that counts: the one with the number of examples, else the first."""
    key = metrics_key(content, examples_key)
    return None if key is None else cast(MetricRecord, content[key])


def metrics_key(content: RecordDict, examples_key: str) -> str | None:
    """Return the name of that record."""
    records = {key: record for key, record in content.items() if isinstance(record, MetricRecord)}
    return next((key for key, record in records.items() if examples_key in record), next(iter(records), None))


def limit_metrics(reply: Message, examples_key: str) -> int:
    """Leave a reply not too many metrics, those of the record that counts first; return how many are dropped."""
    first = metrics_key(reply.content, examples_key)
    records = {key: one for key, one in reply.content.items() if isinstance(one, MetricRecord) and key != protocol.AOI}
    kept = values = dropped = 0
    for key in sorted(records, key=lambda key: key != first):
        record, left = records[key], dict[str, Any]()
        for name in sorted(record, key=lambda name: name != examples_key):
            value = record[name]
            values += len(value) if isinstance(value, list) else 1
            if kept < _MOST_METRICS and len(name) <= _LONGEST_METRIC and values <= _MOST_VALUES:
                left[name], kept = value, kept + 1
        if len(left) < len(record):
            reply.content[key], dropped = MetricRecord(left), dropped + len(record) - len(left)
    return dropped


def _check_content(reply: Message) -> None:
    if reply.has_error():
        if reply.error.code == CLIENT_APP_CRASHED:
            raise Refused("its ClientApp was killed or has crashed; the usual cause is its limit of memory")
        raise Refused(f"error: {what_failed(reply.error.reason)}")


def what_failed(reason: str | None) -> str:
    r"""Return what an error reply says, in one line.

    The engines of this project send a line, and Flower ``<class 'KIND'>:<'MESSAGE'>``.

    Examples
    --------
    >>> what_failed("<class 'ValueError'>:<'a label is 12\nthere are 10 classes'>")
    'ValueError: a label is 12; there are 10 classes'
    """
    text, kind = (reason or "")[-_LONGEST_REASON:], ""
    if plain := _PLAIN_REASON.fullmatch(text):
        kind, text = f"{plain[1].rpartition('.')[2]}: ", plain[2]
    text = kind + ("; ".join(line.strip() for line in text.splitlines() if line.strip()) or "no reason given")
    return text if len(text) <= 300 else f"{text[:299]}…"


def _examples(reply: Message, key: str) -> tuple[float, Mapping[str, object]]:
    metrics = metrics_of(reply.content, key)
    if metrics is None:
        raise Refused("0 metric records in place of one")
    examples = metrics.get(key)
    if not isinstance(examples, int | float) or not 0 < examples <= MAX_EXAMPLES:
        raise Refused(f"{key} is {examples!r}, not a number above 0 and up to {MAX_EXAMPLES}")
    return examples if examples % 1 else int(examples), metrics


def _decode(record: ArrayRecord, model: ArrayRecord, compression: str = coding.NONE) -> Arrays:
    lacking = [name for name in model if name not in record]
    foreign = [name for name in record if name not in model]
    if lacking or foreign:
        what = [f"{some_of(lacking)} missing (an update holds every array)"] if lacking else []
        what += [f"{some_of(foreign)} unknown"] if foreign else []
        raise Refused(f"array names differ from the model's: {', '.join(what)}")
    arrays = {}
    for name, wanted in model.items():
        array = record[name]
        kind = np.dtype(wanted.dtype)
        # another floating type is brought to the model's
        widest = max(1, 8 // kind.itemsize) if kind.kind == "f" else 1
        if len(array.data) > widest * len(wanted.data) + _HEADER:
            raise Refused(f"array {name} has {len(array.data)} bytes, the model's has {len(wanted.data)}")
        if not array.data.startswith(_MAGIC):  # NumPy would take an archive for a dict of arrays
            raise Refused(f"array {name} cannot be read: it is not in NumPy's format")
        try:
            values = npy.view(array.data)
        except Exception as error:  # a forged header ends in ValueError, MemoryError, tokenize.TokenError, …
            last = str(error).strip().rpartition("\n")[2].lstrip() or "no reason given"
            raise Refused(f"array {name} cannot be read: {last[:300]}") from error
        dtype = wanted.dtype if compression == coding.NONE else str(coding.code_type(compression, wanted.dtype))
        found = str(values.dtype)
        floating = values.dtype.kind == np.dtype(dtype).kind == "f"
        same = found == dtype or (compression == coding.NONE and floating)
        if list(values.shape) != list(wanted.shape) or not same:
            raise Refused(
                f"array {name} is {found} of shape {tuple(values.shape)}, "
                f"the {'model' if dtype == wanted.dtype else 'code'}'s is {dtype} of shape {tuple(wanted.shape)}"
            )
        before = npy.view(wanted.data)
        if not npy.is_sound(values, before):
            raise Refused(f"array {name} holds NaN or Inf")
        if found != dtype:
            with npy.silent_overflow():
                values = values.astype(dtype)
            if not npy.is_sound(values, before):
                raise Refused(f"array {name} does not fit {dtype}, the model's type")
        arrays[name] = values
    return arrays


def _expand(codes: Arrays, scales: tuple[float, ...], model: ArrayRecord, compression: str) -> Arrays:
    """Return the arrays that codes stand for, if their scales are any."""
    coded = [name for name, array in model.items() if coding.is_coded(array.dtype)]
    wanted = len(coded) if compression == coding.INT8 else 0
    if len(scales) != wanted:
        raise Refused(f"{len(scales)} scales for {wanted} arrays")
    if (least := min(scales, default=0.0)) < 0:
        raise Refused(f"one of its scales is {least}, below 0")
    arrays = coding.expand({name: npy.view(array.data) for name, array in model.items()}, codes, scales)
    for name in coded:
        if not npy.is_sound(arrays[name], npy.view(model[name].data)):
            raise Refused(f"array {name} holds NaN or Inf once it is decoded")
    return arrays


def warn_of_first_model(arrays: ArrayRecord) -> None:
    """Warn of values of the first model that are not finite, because no client is to blame for them."""
    for name, array in arrays.items():
        if np.dtype(array.dtype).kind in "fc" and not npy.is_finite(values := array.numpy()):
            count = int((~np.isfinite(values)).sum())
            logger.warning(
                "Array %s of the first model holds %d value(s) that are NaN or infinite, of %d. They may stay as they "
                "are, as in a mask; if %s is trained, give it finite values.",
                name,
                count,
                values.size,
                name,
            )
