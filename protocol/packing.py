"""Pack the records of a message into few objects.

For a SuperLink each record, each array and each five megabytes of an array is an object, and an object costs three
calls for each client. So sender and receiver put the bytes of all records together. Our record has the layout, the
bytes of the records without arrays, and the bytes of the arrays if they are few. Otherwise these are one array, which
messages of one model share, because Flower is slow with many bytes in another kind of record.

The layout names each record, and the type, shape, format and length of each array. Only lengths separate the bytes, so
no two arrays can overlap. Flower's SHA-256 of each object covers bytes and layout. A client announces in its
introduction that it reads this form.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeGuard, cast

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from aoi_fl import protocol

AUTO, NONE = KINDS = ("auto", "none")
FORM = 2
"""The version of this form, which a client announces."""

_LAYOUT, _DATA = "packed", "data"  # keys in our record
_FORMAT = "aoi-fl.packed"  # Flower's "stype" of the array of many bytes, which is in a record beside ours
_INSIDE = 1 << 20  # bytes of arrays in our records, in all messages that are sent together
_LONGEST = 1 << 20  # characters of a layout, about ten thousand arrays; larger models are not packed
# The kinds of records, by Flower's customary keys: these two, and protocol.ARRAYS.
_OTHERS: dict[str, type[ConfigRecord] | type[MetricRecord]] = {
    protocol.CONFIG: ConfigRecord,
    protocol.METRICS: MetricRecord,
}
# Key, kind, and the length of Flower's bytes; of arrays instead name, type, shape, format and length of each.
_Record: TypeAlias = tuple[str, str, Any]


class PackingError(ValueError):
    """The layout of a packed message does not fit its bytes."""


def is_packed(message: Message) -> bool:
    """Return whether a message is packed."""
    return message.has_content() and _layout(message.content) is not None


def pack(content: RecordDict) -> RecordDict:
    """Return a content with the bytes of all its records in one record, and of large arrays in one array.

    A single record without arrays is returned unchanged, and so is a model of more than about ten thousand arrays.
    """
    return _pack(content, _INSIDE, {})


@contextmanager
def packed(messages: Iterable[Message], nodes: Collection[int]) -> Iterator[None]:
    """Pack the messages to these nodes within the block; equal arrays share their bytes."""
    there = [(m, m.content) for m in messages if m.metadata.dst_node_id in nodes and m.has_content()]
    contents = {id(content): content for _, content in there}
    inside, shared = _INSIDE // max(1, len(contents)), dict[tuple[int, ...], ArrayRecord]()
    made = {identity: _pack(content, inside, shared) for identity, content in contents.items()}
    for message, content in there:
        message.content = made[id(content)]
    try:
        yield
    finally:
        for message, content in there:
            message.content = content


def unpack(content: RecordDict) -> RecordDict:
    """Restore a packed content, bit for bit; return an unpacked content unchanged.

    Raises
    ------
    PackingError : the layout is malformed, names a record or an array twice, or does not fit the bytes.
    """
    if _layout(content) is None:
        return content
    try:
        return _unpacked(content)
    except PackingError:
        raise
    except Exception as error:  # a decoder may raise any type on invalid bytes
        raise PackingError(f"it cannot be read ({type(error).__name__}: {error})") from None


def _unpacked(content: RecordDict) -> RecordDict:
    layout = _layout(content)
    if not isinstance(layout, str) or len(layout) > _LONGEST:
        raise PackingError(f"its layout is not a text of at most {_LONGEST} characters")
    rows: list[_Record] = json.loads(layout)
    own = memoryview(cast(bytes, cast(ConfigRecord, content[protocol.AOI])[_DATA]))
    if len(content) == 1:  # the bytes of the arrays are in our record too
        small = sum(about for _, kind, about in rows if kind != protocol.ARRAYS)
        own, values = own[:small], own[small:]
    else:
        ((name, array),) = cast(ArrayRecord, content[protocol.ARRAYS]).items()
        if len(content) > 2 or (name, array.stype) != (_LAYOUT, _FORMAT):
            raise PackingError(f"its records are {sorted(content)} instead of a packed one, or two")
        values = memoryview(array.data)
    records: dict[str, Any] = {}
    for key, kind, about in rows:
        record: Any
        if kind == protocol.ARRAYS:
            arrays: dict[str, Array] = {}
            for name, dtype, shape, stype, size in about:
                if not all(map(_is_count, shape)):
                    raise PackingError(f"its layout has an array of shape {shape!s:.99}")
                data, values = _cut(values, size)
                _add(arrays, name, Array(dtype, tuple(shape), stype, data))
            record = ArrayRecord(arrays)
        else:
            data, own = _cut(own, about)
            record = _OTHERS[kind].inflate(data)
        _add(records, key, record)
    if own or values:
        raise PackingError(f"its layout leaves {len(own) + len(values)} bytes over")
    return RecordDict(records)


def _cut(data: memoryview, size: object) -> tuple[bytes, memoryview]:
    """Return the first bytes, and the others."""
    if not _is_count(size) or size > len(data):
        raise PackingError(f"its layout has a length of {size!s:.99}, and {len(data)} bytes are left")
    return bytes(data[:size]), data[size:]


def _is_count(number: object) -> TypeGuard[int]:
    return type(number) is int and number >= 0


def _add(records: dict[str, Any], name: str, record: object) -> None:
    if name in records:
        raise PackingError("its layout has a name twice")
    records[name] = record


def _pack(content: RecordDict, inside: int, shared: dict[tuple[int, ...], ArrayRecord]) -> RecordDict:
    """Return a packed content.

    Parameters
    ----------
    inside : its arrays are in our record if they have at most so many bytes
    shared : the arrays of many bytes that other contents may have too, by the identities of their records
    """
    models = [record for record in content.values() if isinstance(record, ArrayRecord)]
    if not models and len(content) < 2:
        return content
    rows: list[_Record] = []
    data: list[bytes] = []
    for key, record in content.items():
        if isinstance(record, ArrayRecord):
            some = [(name, a.dtype, list(a.shape), a.stype, len(a.data)) for name, a in record.items()]
            rows.append((key, protocol.ARRAYS, some))
        else:
            data.append(record.deflate())
            kind = protocol.METRICS if isinstance(record, MetricRecord) else protocol.CONFIG
            rows.append((key, kind, len(data[-1])))
    layout = json.dumps(rows, separators=(",", ":"))
    if len(layout) > _LONGEST:
        return content
    made = RecordDict()
    arrays = [array.data for model in models for array in model.values()]
    if sum(map(len, arrays)) <= inside:
        data += arrays
    else:
        identity = tuple(map(id, models))
        if identity not in shared:
            whole = b"".join(arrays)
            shared[identity] = ArrayRecord({_LAYOUT: Array("uint8", (len(whole),), _FORMAT, whole)})
        made[protocol.ARRAYS] = shared[identity]
    made[protocol.AOI] = ConfigRecord({_LAYOUT: layout, _DATA: b"".join(data)})
    return made


def _layout(content: RecordDict) -> object:
    own = content.get(protocol.AOI)
    return own.get(_LAYOUT) if isinstance(own, ConfigRecord) else None
