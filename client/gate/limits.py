"""Limits of what a reply may contain: the norm of an update, the names of its metrics, and its kinds of records."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from aoi_fl.client.gate.rules import NORM
from aoi_fl.protocol import ARRAYS, CONFIG, METRICS, coding
from aoi_fl.science.errors import AoiError
from aoi_fl.science.types import AnyArray, Arrays, Floats

_BLOCK = 1 << 16  # values that are measured together, so that no copy of an array is made
_SPARE = 1e-6  # of the norm of a coded update, because the server decodes with rounding
FEW = 256  # numbers outside of arrays; more of them, in one reply or in many, are an update in another form
_HEADER = 400  # bytes that Flower adds to an array
_SHORT = 256  # characters of a text that may leave


class Refusal(AoiError):
    """The gate refuses a message or a reply.

    Attributes
    ----------
    rule : the key of the owner's rule
    reason, remedy : for the owner only
    """

    def __init__(self, rule: str, reason: str = "", remedy: str = "") -> None:
        super().__init__(f"{rule}: {reason.rstrip('.')}. {remedy}".rstrip() if reason else rule)
        self.rule, self.reason, self.remedy = rule, reason, remedy


@dataclass(frozen=True)
class Content:
    """The records of a message by their kinds and keys, without our own record.

    Attributes
    ----------
    arrays, metrics, configs : the records
    own : our record, or None
    unread : why an array cannot be read, or ""
    """

    arrays: Mapping[str, Arrays] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    configs: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Any] | None = None
    unread: str = ""

    @property
    def model(self) -> Arrays | None:
        """The only record of arrays; of several, the one with the customary key; or None."""
        return next(iter(self.arrays.values())) if len(self.arrays) == 1 else self.arrays.get(ARRAYS)

    @property
    def numbers(self) -> int:
        """The numbers in the records without arrays; a key and eight characters of a name or a text count as one."""
        records = [*self.metrics.items(), *self.configs.items()]
        size = sum(len(n) // 8 + max(1, _size(v)) for _, record in records for n, v in record.items())
        return size + sum(1 + len(key) // 8 for key in (*self.arrays, *(key for key, _ in records)))


def _size(value: Any) -> int:
    """Return the numbers in a value of a record; a byte or a character counts as an eighth of one."""
    if isinstance(value, str | bytes):
        return 1 + len(value) // 8
    return sum(map(_size, value)) if isinstance(value, list | tuple) else 1


def _is_number(value: Any) -> bool:
    return all(isinstance(v, int | float) for v in (value if isinstance(value, list | tuple) else [value]))


def trimmed(content: Content, names: frozenset[str] | None) -> Content:
    """Return a reply with the allowed metrics alone, in records of customary keys; configurations obey too."""
    if names is None:
        return content
    kept = [
        {n: v for record in records.values() for n, v in record.items() if n in names and _is_number(v)}
        for records in (content.metrics, content.configs)
    ]
    metrics = {METRICS: kept[0]} if content.metrics else {}
    return replace(content, metrics=metrics, configs={CONFIG: kept[1]} if kept[1] else {})


def clipped(reply: Content, sent: Content, most: float, coded: str | None) -> tuple[Content, float]:
    """Return a reply whose change of the sent model is at most a norm, and the norm before.

    The norm is over all floating arrays, in float64. Equal infinities in both models are no change.

    Parameters
    ----------
    reply, sent : the reply, and the message with the model
    most : the largest norm
    coded : the code that the message asked for; None: uncoded

    Raises
    ------
    Refusal : the change cannot be measured or is not finite.
    """
    model, new = sent.model, reply.model
    if reply.unread or sent.unread:
        raise Refusal(NORM, reply.unread or sent.unread)
    if reply.numbers > FEW or any(
        isinstance(v, bytes | list) for record in reply.configs.values() for v in record.values()
    ):
        raise Refusal(NORM, "the reply may have an update outside of arrays")
    if not reply.arrays:
        return reply, 0.0
    if model is None or new is None or len(reply.arrays) != 1:
        raise Refusal(NORM, "the reply and the message need one record of arrays each")
    kind = coding.NONE if reply.own is None else str(reply.own.get("compression", coding.NONE))
    if kind not in (coding.NONE, coded):
        raise Refusal(NORM, f"the reply is coded as {kind[:20]!r}, which the server did not ask for")
    scales = _scales(reply, model, new, kind)
    pairs = {name: _base(name, array, model, kind) for name, array in new.items()}
    norm, hides = 0.0, False
    for name, base in pairs.items():
        if base is not None:
            change, signs = _norm(new[name], base)
            norm, hides = math.hypot(norm, scales[name] * change), hides or signs
    if sum(np.count_nonzero(new[name] != model[name]) for name, base in pairs.items() if base is None) > FEW:
        raise Refusal(NORM, f"more than {FEW} values change that are not floating")
    if not math.isfinite(norm):
        raise Refusal(NORM, "the change is not finite")
    fits = norm <= most * (1 if kind == coding.NONE else 1 - _SPARE)
    if fits and not hides:
        return reply, norm
    factor = 1.0 if fits else most / norm * (1 - (1e-12 if kind == coding.NONE else _SPARE))
    (key,) = reply.arrays
    if kind == coding.INT8 and reply.own is not None:
        own = {**reply.own, "scales": [scale * factor for scale in reply.own["scales"]]}
        return replace(reply, own=own), norm
    arrays = {name: a if (b := pairs[name]) is None else _towards(a, b, factor) for name, a in new.items()}
    return replace(reply, arrays={key: arrays}), norm


def size_of(content: Content) -> int:
    """Return the bytes of the arrays with the headers that the gate writes, which may be longer than the app's."""
    return sum(array.nbytes + _HEADER for record in content.arrays.values() for array in record.values())


def _scales(reply: Content, model: Arrays, new: Arrays, kind: str) -> dict[str, float]:
    names = [name for name in new if name in model and model[name].dtype.kind == "f"]
    scales = list((reply.own or {}).get("scales", ())) if kind == coding.INT8 else [1.0] * len(names)
    if len(scales) != len(names) or not all(type(s) in (int, float) and math.isfinite(s) for s in scales):
        raise Refusal(NORM, "the reply does not have a scale for each array")
    return dict.fromkeys(new, 1.0) | dict(zip(names, map(abs, map(float, scales)), strict=True))


def _base(name: str, array: AnyArray, model: Arrays, kind: str) -> AnyArray | None:
    """Return what an array of a reply changes, or None for an array that is not floating."""
    base = model.get(name)
    if base is None or base.shape != array.shape:
        raise Refusal(NORM, f"the array {name[:_SHORT]!r} is not one of the model")
    coded = kind != coding.NONE and base.dtype.kind == "f"
    if (array.dtype != coding.code_type(kind, base.dtype)) if coded else (array.dtype.kind != base.dtype.kind):
        raise Refusal(NORM, f"the array {name[:_SHORT]!r} has another type than the model's")
    if coded:
        return np.zeros((), array.dtype)
    if base.dtype.kind == "f":
        return base
    if base.dtype != array.dtype or base.dtype.kind not in "iub":
        raise Refusal(NORM, f"the array {name[:_SHORT]!r} has no numbers of the model's type")
    return None


def _flat(array: AnyArray, shape: tuple[int, ...]) -> AnyArray:
    """Return the values of an array in their order; a copy only if it is strided."""
    return np.ascontiguousarray(array).reshape(-1) if array.shape == shape else np.broadcast_to(array, math.prod(shape))


def _blocks(array: AnyArray, base: AnyArray) -> Iterator[tuple[slice, AnyArray, Floats]]:
    """Yield slices of the flat array, the base there, and the change in float64."""
    new, old = _flat(array, array.shape), _flat(base, array.shape)
    for start in range(0, new.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        values, before = new[part], old[part]
        with np.errstate(over="ignore", invalid="ignore"):
            change = values.astype(np.float64) - before.astype(np.float64)
            change[values == before] = 0.0
        yield part, before, change


def _norm(array: AnyArray, base: AnyArray) -> tuple[float, bool]:
    """Return the norm of a change, and whether it hides data in the signs of zeros, which no norm sees."""
    total, hides, flat = 0.0, False, _flat(array, array.shape)
    for part, before, change in _blocks(array, base):
        largest = float(np.abs(change).max(initial=0.0))
        if not math.isfinite(largest):
            return math.inf, False
        hides |= bool(np.any(np.signbit(flat[part]) != np.signbit(before), where=change == 0))
        if largest > 0:  # scaled, so that no square overflows or vanishes
            change /= largest
            total = math.hypot(total, largest * math.sqrt(float(change @ change)))
    return total, hides


def _towards(array: AnyArray, base: AnyArray, factor: float) -> AnyArray:
    """Return base + factor · change; no value is farther from the base than that, whatever the rounding.

    Where nothing changes, the bits are the base's.
    """
    made = np.array(np.broadcast_to(base, array.shape), np.promote_types(array.dtype, base.dtype), order="C")
    flat = _flat(made, made.shape)
    for part, before, change in _blocks(array, base):
        moved = change != 0
        wanted = factor * change
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.asarray(before.astype(np.float64) + wanted, flat.dtype)
            far = np.abs(values.astype(np.float64) - before.astype(np.float64)) > np.abs(wanted)
            values[far] = np.nextafter(values[far], before[far].astype(flat.dtype))
        flat[part][moved] = values[moved]
    return made
