"""The state of a Flower strategy, or of own code, as named arrays for checkpoints: momentum, second moments, trees.

Those attributes are kept that consist of arrays, numbers, texts, bytes, NumPy's generators, Flower's records, and
lists, tuples, sets and dicts of those. A value in two places is kept twice. Functions, classes and loggers are what the
object was made with, and a resumed run makes it anew. A warning names anything else. Strategies that draw from NumPy's
global generator, as Flower's differential privacy does, draw other numbers after a break.
"""

import json
import logging
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp.strategy import Strategy

from aoi_fl.protocol.log import logger
from aoi_fl.science.types import AnyArray, Arrays

_STRUCTURE = "structure"
# What a strategy is made with and does not change.
_MADE_ANEW = FunctionType | BuiltinFunctionType | MethodType | ModuleType | type | logging.Logger | Strategy
_SEQUENCES: dict[str, Callable[[Any], Any]] = {kind.__name__: kind for kind in (list, tuple, set, frozenset)}
_MAPPINGS: dict[str, Callable[[Any], Any]] = {
    kind.__name__: kind for kind in (dict, ArrayRecord, MetricRecord, ConfigRecord)
}
_BITS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}


class _Foreign(Exception):
    """A value that is none of those that are kept; the message says which, and where."""


def dump(attributes: Mapping[str, Any]) -> tuple[Arrays, dict[str, str]]:
    """Return an object's attributes as arrays, and what of them cannot be kept.

    Returns
    -------
    state : arrays by number, and a description of where they belong, in JSON
    lost : by attribute, what is in it that cannot be kept
    """
    arrays: list[AnyArray] = []
    structure, lost = {}, {}
    for name, value in attributes.items():
        if isinstance(value, _MADE_ANEW):
            continue
        taken = len(arrays)
        try:
            structure[name] = _apart(value, name, arrays)
        except (_Foreign, RecursionError) as why:
            del arrays[taken:]
            lost[name] = str(why)
    described = json.dumps({"attributes": structure, "lost": lost}).encode()
    return {_STRUCTURE: np.frombuffer(described, np.uint8), **{str(i): array for i, array in enumerate(arrays)}}, lost


def load(attributes: dict[str, Any], memory: Arrays) -> dict[str, str]:
    """Put back the attributes that :func:`dump` returned; return what that could not keep."""
    if _STRUCTURE not in memory:
        return {}
    described = json.loads(memory[_STRUCTURE].tobytes())
    attributes.update({name: _together(value, memory) for name, value in described["attributes"].items()})
    lost: dict[str, str] = described["lost"]
    return lost


def warn_of_lost(kind: str, lost: Mapping[str, str], said: set[str]) -> None:
    """Say once of each attribute that a checkpoint does not hold it."""
    for name, why in lost.items():
        if (attribute := f"{kind}.{name}") not in said:
            said.add(attribute)
            logger.warning(
                "%s is not in the checkpoint (%s, which a checkpoint cannot hold): a resumed run starts it anew. "
                "Write state_dict and load_state_dict, or keep it in arrays, numbers, texts, lists, dicts or NumPy's "
                "generators.",
                attribute,
                why,
            )


def _apart(value: Any, where: str, arrays: list[AnyArray]) -> Any:
    """Return a value as JSON, with its arrays appended to a list and named by their numbers."""
    kind: Any = type(value)

    def index(name: str, array: AnyArray) -> list[str]:
        arrays.append(array)
        return [name, str(len(arrays) - 1)]

    if value is None or kind in (bool, int, float, str):
        return value
    if kind is np.ndarray or isinstance(value, np.generic):
        if value.dtype.kind in "fiub" and value.itemsize <= 8 and value.dtype.isnative:
            return index("array" if kind is np.ndarray else "scalar", np.asarray(value))
    elif kind is Array:
        return index("Array", value.numpy())
    elif kind is bytes:
        return index("bytes", np.frombuffer(value, np.uint8))
    elif kind is np.random.Generator:
        return ["generator", _apart(value.bit_generator.state, where, arrays)]
    elif kind in _SEQUENCES.values():
        return [kind.__name__, [_apart(v, f"{where}[{i}]", arrays) for i, v in enumerate(value)]]
    elif kind in _MAPPINGS.values():
        pairs = value.items()
        return [kind.__name__, [[_apart(k, where, arrays), _apart(v, f"{where}[{k!r}]", arrays)] for k, v in pairs]]
    raise _Foreign(f"{where} is of type {kind.__module__}.{kind.__qualname__}")


def _together(value: Any, memory: Arrays) -> Any:
    """Return the value that :func:`_apart` took apart."""
    if not isinstance(value, list):
        return value
    kind, content = value
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](_together(v, memory) for v in content)
    if kind in _MAPPINGS:
        return _MAPPINGS[kind]({_together(k, memory): _together(v, memory) for k, v in content})
    if kind == "generator":
        state = _together(content, memory)
        bits: Any = _BITS[state["bit_generator"]]()
        bits.state = state
        return np.random.Generator(bits)
    array = memory[content].copy()
    match kind:
        case "scalar":
            return array[()]
        case "Array":
            return Array(array)
        case "bytes":
            return array.tobytes()
    return array
