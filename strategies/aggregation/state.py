"""The state of a Flower strategy as named arrays, for checkpoints: momentum, second moments, clipping norms, trees.

What consists of arrays, numbers, texts, bytes, random generators, Flower's records, and lists, queues, sets and
mappings of those is kept, and comes back as what it was: also one list or generator in two places. Functions, classes
and loggers are what the strategy was made with, and a resumed run makes it anew. A warning names anything else.
Strategies that draw from NumPy's global generator, as Flower's differential privacy does, draw other numbers after a
break.
"""

import json
import logging
import random
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp.strategy import Strategy
from numpy.typing import NDArray

from aoi_fl.protocol import npy

logger = logging.getLogger("flwr")
_STRUCTURE = "structure"
# What a strategy is made with and does not change.
_MADE_ANEW = FunctionType | BuiltinFunctionType | MethodType | ModuleType | type | logging.Logger | Strategy
_SEQUENCES: dict[str, Callable[[Any], Any]] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_MAPPINGS: dict[str, Callable[[Any], Any]] = {
    "dict": dict, "ordered": OrderedDict, "counter": lambda pairs: Counter(dict(pairs)),
    "record": lambda pairs: ArrayRecord(dict(pairs)), "metrics": lambda pairs: MetricRecord(dict(pairs)),
    "config": lambda pairs: ConfigRecord(dict(pairs)),
}  # fmt: skip
_NAMES: dict[type, str] = {
    list: "list", tuple: "tuple", set: "set", frozenset: "frozenset", dict: "dict", OrderedDict: "ordered",
    Counter: "counter", ArrayRecord: "record", MetricRecord: "metrics", ConfigRecord: "config",
}  # fmt: skip
_BITS = {kind.__name__: kind for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox,
                                          np.random.SFC64)}  # fmt: skip


class _Foreign(Exception):
    """A value that is none of those that are kept; the message says which, and where."""


def dump(strategy: object) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return the strategy's state, and what of it cannot be kept.

    Returns
    -------
    state : its arrays by number, and a description of where they belong, in JSON
    lost : by attribute, what is in it that cannot be kept
    """
    apart = _Apart()
    structure, lost = {}, {}
    for name, value in getattr(strategy, "__dict__", {}).items():
        if isinstance(value, _MADE_ANEW):
            continue
        arrays, seen = len(apart.arrays), dict(apart.seen)
        try:
            structure[name] = apart.take(value, name)
        except _Foreign as where:
            del apart.arrays[arrays:]
            apart.seen, apart.under_way = seen, set()
            lost[name] = str(where)
    described = json.dumps({"attributes": structure, "lost": lost}).encode()
    state = {_STRUCTURE: np.frombuffer(described, np.uint8)}
    return state | {str(i): array for i, array in enumerate(apart.arrays)}, lost


def load(strategy: object, memory: Mapping[str, NDArray[Any]]) -> dict[str, str]:
    """Give a strategy the state that :func:`dump` returned; return what that could not keep."""
    if _STRUCTURE not in memory:
        return {}
    described = json.loads(memory[_STRUCTURE].tobytes())
    together = _Together(memory)
    vars(strategy).update({name: together.put(value) for name, value in described["attributes"].items()})
    lost: dict[str, str] = described["lost"]
    return lost


def warn_of_lost(kind: str, lost: Mapping[str, str], meaning: str, said: set[str]) -> None:
    """Say once of each attribute that a checkpoint does not hold it, and what that means."""
    for name, why in lost.items():
        if (attribute := f"{kind}.{name}") not in said:
            said.add(attribute)
            logger.warning(
                "%s is not in the checkpoint (%s, which a checkpoint cannot hold): %s. Keep state in arrays, "
                "numbers, texts, lists, mappings, or NumPy's generators.",
                attribute, why, meaning,
            )  # fmt: skip


class _Apart:
    """Takes values apart into plain JSON and arrays; what may change in place and is met again is not taken twice."""

    def __init__(self) -> None:
        self.arrays: list[NDArray[Any]] = []
        self.seen: dict[int, tuple[int, Any]] = {}  # which it is, and the value: none must take another's id meanwhile
        self.under_way: set[int] = set()

    def take(self, value: Any, where: str) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if id(value) in self.seen:
            return ["again", self.seen[id(value)][0]]
        if id(value) in self.under_way:
            raise _Foreign(f"{where} holds itself")
        self.under_way.add(id(value))
        taken = self._contents(value, where)
        self.under_way.discard(id(value))
        self.seen[id(value)] = len(self.seen), value
        return taken

    def _contents(self, value: Any, where: str) -> Any:
        if (type(value) is np.ndarray or isinstance(value, np.generic)) and not value.dtype.hasobject:
            return ["array" if type(value) is np.ndarray else "scalar", self._array(np.asarray(value))]
        if isinstance(value, Array):
            return ["flower", self._array(value.numpy())]
        if type(value) in (bytes, bytearray):
            return [type(value).__name__, self._array(np.frombuffer(value, np.uint8))]
        if type(value) is complex:
            return ["complex", [value.real, value.imag]]
        if type(value) is deque:
            return ["deque", [value.maxlen, self._members(value, where)]]
        if isinstance(value, np.random.Generator) and type(value.bit_generator).__name__ in _BITS:
            bits = value.bit_generator
            return ["generator", [self.take(bits.state, where), self.take(_seed(bits.seed_seq), where)]]
        if type(value) is np.random.RandomState:
            return ["legacy", self.take(value.get_state(legacy=False), where)]
        if type(value) is random.Random:
            return ["random", self.take(value.getstate(), where)]
        kind = _NAMES.get(type(value))
        if kind in _SEQUENCES:
            return [kind, self._members(value, where)]
        if kind in _MAPPINGS:
            pairs = value.items()
            return [kind, [[self.take(k, where), self.take(v, f"{where}[{k!r}]")] for k, v in pairs]]
        raise _Foreign(f"{where} is of type {type(value).__module__}.{type(value).__qualname__}")

    def _members(self, values: Any, where: str) -> list[Any]:
        return [self.take(v, f"{where}[{i}]") for i, v in enumerate(values)]

    def _array(self, array: NDArray[Any]) -> str | list[str]:
        """Keep an array; one that is in no type of safetensors' as the bytes of a NumPy file."""
        if array.dtype.kind in "fiub" and array.itemsize <= 8 and array.dtype.isnative:
            return self._index(array)
        return [self._index(np.frombuffer(npy.dumps(array), np.uint8))]

    def _index(self, array: NDArray[Any]) -> str:
        self.arrays.append(array)
        return str(len(self.arrays) - 1)


class _Together:
    """Puts together again what :class:`_Apart` took apart, in the same order."""

    def __init__(self, memory: Mapping[str, NDArray[Any]]) -> None:
        self._memory = memory
        self._made: list[Any] = []

    def put(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        kind, content = value
        if kind == "again":
            return self._made[content]
        made = self._make(kind, content)
        self._made.append(made)
        return made

    def _make(self, kind: str, content: Any) -> Any:
        match kind:
            case "array":
                return self._array(content)
            case "scalar":
                return self._array(content)[()]
            case "flower":
                return Array(self._array(content))
            case "bytes":
                return self._array(content).tobytes()
            case "bytearray":
                return bytearray(self._array(content).tobytes())
            case "complex":
                return complex(*content)
            case "deque":
                return deque(map(self.put, content[1]), content[0])
            case "generator":
                state, seed = map(self.put, content)
                bits = _BITS[state["bit_generator"]](None if seed is None else np.random.SeedSequence(**seed))
                bits.state = state
                return np.random.Generator(bits)
            case "legacy":
                legacy = np.random.RandomState()
                legacy.set_state(self.put(content))
                return legacy
            case "random":
                python = random.Random()
                python.setstate(self.put(content))
                return python
        if kind in _SEQUENCES:
            return _SEQUENCES[kind]([self.put(v) for v in content])
        return _MAPPINGS[kind]([(self.put(k), self.put(v)) for k, v in content])

    def _array(self, where: str | list[str]) -> NDArray[Any]:
        if isinstance(where, str):
            return self._memory[where].copy()
        return npy.view(self._memory[where[0]].tobytes()).copy()


def _seed(found: Any) -> dict[str, Any] | None:
    """Return what a generator's offspring are drawn from, where that is NumPy's own kind of seed."""
    return {**found.state} if isinstance(found, np.random.SeedSequence) else None
