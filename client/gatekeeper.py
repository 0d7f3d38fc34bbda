"""Bring a SuperNode's messages to the owner's gate: records, packed contents and codes of our protocol."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict

from aoi_fl import protocol
from aoi_fl.client.gate.gate import Arrival, Gate
from aoi_fl.client.gate.limits import Content, Refusal
from aoi_fl.client.gate.rules import METRICS, NAMES
from aoi_fl.flower.errors import DECLINED, FORMER_APP, NO_HELLO, known_code
from aoi_fl.flower.gate import Release
from aoi_fl.protocol import Bid, Introduction, ParticipationReply, ParticipationRequest, Record, npy, packing
from aoi_fl.science.types import AnyArray

_RECORDS: tuple[type[Record], ...] = (Introduction, ParticipationReply, Bid)
_NUMPY = "numpy.ndarray"  # Flower's "stype" of an array in NumPy's file format


class Gatekeeper:
    """Answers the doors of a SuperNode (:mod:`aoi_fl.flower.gate`) by the owner's gate.

    Parameters
    ----------
    gate, node : the gate, and the node's configuration
    """

    def __init__(self, gate: Gate, node: Mapping[str, Any]) -> None:
        self._gate, self.binds = gate, gate.binds
        name = node.get("name") or f"client-{node.get('partition-id')}"
        self._texts = {"name": str(name), "tags": str(node.get("tags", ""))}

    def admit(self, message: Message, app: str, content: RecordDict | None) -> Error | Release:
        """Return the error reply to a message that must not start the app, or the door of its reply.

        Parameters
        ----------
        message, app : the message, and the digest of its app
        content : its content; None: not yet received
        """
        about = message.metadata
        found, coded, asked, name = None, None, None, ""
        if content is not None:
            found = read(content)
            try:
                ask = ParticipationRequest.read(found.own or {})
                asked, name, coded = ask.round, ask.run, ask.compression
            except ValueError:
                pass
        arrival = Arrival(str(about.run_id), about.message_type, about.group_id, app, found, asked, name, coded)
        try:
            self._gate.admit(arrival)
        except Refusal as refusal:
            return declined(refusal)
        return partial(self._release, arrival)

    def _release(self, arrival: Arrival, reply: Message, size: int) -> RecordDict | Error | None:
        try:
            if reply.has_error():
                self._gate.failed(arrival)
                return self._plain(reply.error) if self.binds else None
            found = read(reply.content)
            if not self.binds:
                self._gate.release(arrival, found, size)
                return None
            if packing.is_packed(reply) and found.unread:
                raise Refusal(METRICS, found.unread)
            asked = None if arrival.asked is None else found.own
            own = own_record(asked, {**self._texts, "compression": arrival.coded})
            leaves = self._gate.release(arrival, replace(found, own=own), size)
            content = write(leaves, found, packing.unpack(reply.content))
        except Refusal as refusal:
            return declined(refusal)
        return packing.pack(content) if packing.is_packed(reply) else content

    @staticmethod
    def _plain(error: Error) -> Error:
        """Return an error of the app without a text of its choice."""
        texts = [*(str(declined(Refusal(rule)).reason) for rule in NAMES), NO_HELLO, FORMER_APP]
        known = (text for text in texts if text in (error.reason or ""))
        return Error(known_code(error.code), next(known, "the app failed; its device's log has the reason"))


def declined(refusal: Refusal) -> Error:
    """Return the error of a reply to a message that the owner's gate refuses."""
    return Error(DECLINED, f"{protocol.DECLINED_BY}{refusal.rule}")


def own_record(values: Mapping[str, Any] | None, texts: Mapping[str, str | None]) -> dict[str, Any] | None:
    """Return our record of a reply with the fields of the protocol only, so that it carries no other data.

    Raises
    ------
    Refusal : no text of it may be another one than the client's.
    """
    if values is None:
        return None
    kept: dict[str, Any] = {}
    try:
        for kind in _RECORDS:
            if kind.required() <= values.keys():
                kept |= kind.read(values).write()
    except ValueError as error:
        raise Refusal(METRICS, f"a record of the protocol cannot be read ({error})") from error
    for key, value in kept.items():
        if isinstance(value, str) and value != texts.get(key, value if key == "rule" and value in NAMES else None):
            raise Refusal(METRICS, f"the text {key} of a record of the protocol is not the client's")
    if "scales" in kept and kept.get("compression") is None:
        raise Refusal(METRICS, "a record of the protocol has scales without a code")
    return kept


def read(content: RecordDict) -> Content:
    """Return the records of a content."""
    arrays: dict[str, dict[str, AnyArray]] = {}
    metrics, configs = {}, {}
    own, unread = None, ""
    try:
        content = packing.unpack(content)
    except packing.PackingError as error:
        return Content(unread=str(error))
    for key, record in content.items():
        if isinstance(record, ArrayRecord):
            arrays[key] = {}
            for name, array in record.items():
                try:
                    if array.stype != _NUMPY:
                        raise ValueError(f"its format is {array.stype[:40]!r}")
                    arrays[key][name] = _numbers(npy.view(array.data))
                except Exception as error:  # a forged header can raise any
                    arrays[key][name] = np.empty(0, np.bool_)
                    unread = f"the array {name[:80]!r} cannot be read: {error}"
        elif isinstance(record, MetricRecord):
            metrics[key] = dict(record)
        elif key == protocol.AOI:
            own = dict(record)
        else:
            configs[key] = dict(record)
    return Content(arrays, metrics, configs, own, unread)


def _numbers(array: AnyArray) -> AnyArray:
    """Return an array whose bytes are all of its values: no text, field, padding, or truth value of another byte."""
    odd = array.dtype == np.bool_ and bool((array.view(np.uint8) > 1).any())
    if array.dtype.kind not in "fciub" or array.dtype.char in "gG" or odd:
        raise ValueError(f"its type {str(array.dtype)[:40]!r} is not one of plain numbers")
    return array


def write(leaves: Content, reply: Content, records: RecordDict) -> RecordDict:
    """Return a content with the records that leave of a reply; unchanged arrays keep their bytes."""
    made: dict[str, Any] = {}
    for key, new in leaves.arrays.items():
        old = cast(ArrayRecord, records[key])
        made[key] = ArrayRecord({n: _array(old[n], reply.arrays[key][n], new[n], reply.unread) for n in new})
    made |= {key: MetricRecord(record) for key, record in leaves.metrics.items()}
    made |= {key: ConfigRecord(record) for key, record in leaves.configs.items()}
    if leaves.own is not None:
        made[protocol.AOI] = ConfigRecord(dict(leaves.own))
    return RecordDict(made)


def _array(old: Array, values: AnyArray, new: AnyArray, unread: str) -> Array:
    if unread:
        return old
    head = npy.head(new)  # another one, and bytes after the values, could carry data
    same = new is values and old.data.startswith(head) and len(old.data) == len(head) + new.nbytes
    data = old.data if same else npy.dumps(new)
    return Array(str(new.dtype), tuple(new.shape), _NUMPY, data)
