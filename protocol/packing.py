"""Pack all arrays of a model into one array of a message.

A SuperLink announces, stores and sends each array of a message in separate calls, six for each client. So sender and
receiver concatenate the bytes of all arrays. Our record has the layout: record, name, type, shape, format and length of
each array. Only lengths separate arrays, so no two can overlap. Flower's SHA-256 of each object covers bytes and
layout. A client announces in its introduction that it reads this form.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias, cast

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

from aoi_fl import protocol

AUTO, NONE = KINDS = ("auto", "none")
FORM = 1
"""The version of this form, which a client announces."""

_LAYOUT = "packed"  # the layout's key in our record
_FORMAT = "aoi-fl.packed"  # Flower's "stype" of the array of all bytes
_LONGEST = 1 << 20  # characters of a layout, about ten thousand arrays; larger models are not packed
_Row: TypeAlias = tuple[str, str, list[int], str, int]  # name, type, shape, format, length in bytes


class PackingError(ValueError):
    """The layout of a packed message does not fit its bytes."""


def is_packed(message: Message) -> bool:
    """Return whether a message's arrays are packed."""
    return message.has_content() and _layout(message.content) is not None


def pack(content: RecordDict) -> RecordDict:
    """Return a content with the bytes of all its arrays in one array.

    Records of other kinds are shared, not copied. A content without arrays is returned unchanged.
    """
    return _Packer().pack(content)


@contextmanager
def packed(messages: Iterable[Message], nodes: Collection[int]) -> Iterator[None]:
    """Pack the messages to these nodes within the block; equal arrays share their bytes."""
    packer, before = _Packer(), []
    for message in messages:
        if message.metadata.dst_node_id in nodes and message.has_content():
            before.append((message, message.content))
            message.content = packer.pack(message.content)
    try:
        yield
    finally:
        for message, content in before:
            message.content = content


def unpack(content: RecordDict) -> RecordDict:
    """Restore a packed content, bit for bit; return an unpacked content unchanged.

    Raises
    ------
    PackingError : the layout is malformed, names an array twice, or does not fit the bytes.
    """
    layout = _layout(content)
    if layout is None:
        return content
    rows = _parsed(layout)
    records = {key: record for key, record in content.items() if isinstance(record, ArrayRecord)}
    if list(rows) != list(records):
        raise PackingError(f"its layout is of the records {list(rows)}, and the message has {list(records)}")
    arrays = [array for record in records.values() for array in record.values()]
    if len(arrays) != 1 or arrays[0].stype != _FORMAT:
        raise PackingError(f"{len(arrays)} arrays instead of a packed one")
    data, expected = arrays[0].data, sum(size for some in rows.values() for *_, size in some)
    if len(data) != expected:
        raise PackingError(f"its layout is of {expected} bytes, and the message has {len(data)}")
    whole, start = RecordDict(), 0
    for key, record in content.items():
        if key in rows:
            named = {}
            for name, dtype, shape, stype, size in rows[key]:
                named[name] = Array(dtype, tuple(shape), stype, data[start : start + size])
                start += size
            whole[key] = ArrayRecord(named)
        elif key == protocol.AOI:
            if rest := {name: value for name, value in record.items() if name != _LAYOUT}:
                whole[key] = ConfigRecord(cast(Any, rest))
        else:
            whole[key] = record
    return whole


class _Packer:
    """Packs contents and keeps the packed arrays, which many contents share."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], tuple[str, ArrayRecord]] = {}  # by the identities of the records

    def pack(self, content: RecordDict) -> RecordDict:
        records = {key: record for key, record in content.items() if isinstance(record, ArrayRecord)}
        own = content.get(protocol.AOI, ConfigRecord())
        if not records or not isinstance(own, ConfigRecord):
            return content
        identity = tuple(id(record) for record in records.values())
        if identity not in self._known:
            self._known[identity] = _together(records)
        layout, whole = self._known[identity]
        if len(layout) > _LONGEST:
            return content
        made, empty = RecordDict(), ArrayRecord()
        for key, record in content.items():
            made[key] = record if key not in records else whole if key == next(iter(records)) else empty
        made[protocol.AOI] = ConfigRecord(cast(Any, {**own, _LAYOUT: layout}))
        return made


def _together(records: Mapping[str, ArrayRecord]) -> tuple[str, ArrayRecord]:
    """Return the layout of records, and a record with all their bytes in one array."""
    rows = {
        key: [(name, a.dtype, list(a.shape), a.stype, len(a.data)) for name, a in record.items()]
        for key, record in records.items()
    }
    data = b"".join(array.data for record in records.values() for array in record.values())
    whole = ArrayRecord({_LAYOUT: Array("uint8", (len(data),), _FORMAT, data)})
    return json.dumps(rows, separators=(",", ":")), whole


def _layout(content: RecordDict) -> object:
    own = content.get(protocol.AOI)
    return own.get(_LAYOUT) if isinstance(own, ConfigRecord) else None


def _parsed(layout: object) -> dict[str, list[_Row]]:
    """Return a layout's checked rows by record."""
    if not isinstance(layout, str) or len(layout) > _LONGEST:
        raise PackingError(f"its layout is not a text of at most {_LONGEST} characters")
    try:
        pairs = json.loads(layout, object_pairs_hook=list)
    except (ValueError, RecursionError) as error:
        raise PackingError(f"its layout is not JSON ({error})") from None
    rows: dict[str, list[_Row]] = {}
    for pair in pairs if isinstance(pairs, list) else [None]:
        if not (isinstance(pair, tuple) and isinstance(pair[1], list) and all(map(_is_row, pair[1]))):
            raise PackingError("its layout is not one of arrays")
        names = [name for name, *_ in pair[1]]
        if pair[0] in rows or len(set(names)) < len(names):
            raise PackingError("its layout has a name twice")
        rows[pair[0]] = pair[1]
    return rows


def _is_row(row: object) -> bool:
    if not isinstance(row, list) or len(row) != 5:
        return False
    name, dtype, shape, stype, size = row
    texts = all(isinstance(text, str) for text in (name, dtype, stype))
    return texts and isinstance(shape, list) and all(type(n) is int and n >= 0 for n in (*shape, size))
