"""Own selectors and policies behind one check: each fault names the code that has it.

A run, a simulation and a page see the same wrapper. A selector or policy without a state of its own keeps its
attributes in checkpoints, as far as :mod:`aoi_fl.strategies.aggregation.state` can. A warning names what changes
elsewhere.
"""

import inspect
import json
import pickle
import random
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeAlias

import numpy as np

from aoi_fl.protocol import ParticipationRequest
from aoi_fl.protocol.own_code import brief, is_installed, naming, unusable
from aoi_fl.protocol.records import State
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.selection import Selection, sound_clients, sound_values
from aoi_fl.science.types import Floats
from aoi_fl.strategies.aggregation.state import dump, load, warn_of_lost
from aoi_fl.strategies.policy import Policy, PolicyTraits

_LARGEST = 2**30  # bytes of a state
_STATE = ("state_dict", "load_state_dict")
_Check: TypeAlias = Callable[[str, Any, tuple[Any, ...]], Any]  # of a result of a method with these arguments


def guarded(made: Any, name: str = "") -> Any:
    """Return a selector or policy with checks of its results; one of ours, or with checks, as it is.

    Parameters
    ----------
    made : the selector or policy
    name : its name in errors; empty: module and class

    Raises
    ------
    ConfigError : its traits are wrong, or it can save a state and not restore one.
    """
    kind = type(made)
    if isinstance(made, Guarded) or kind.__module__.startswith("aoi_fl."):
        return made
    return Guarded(made, name or f"{kind.__module__}.{kind.__qualname__}")


def name_of(policy: object) -> str:
    """Return what an error calls a policy or selector."""
    return policy.name if isinstance(policy, Guarded) else type(policy).__name__


_NO_STATE = (Policy.state_dict, Policy.load_state_dict)


class Guarded:
    """A selector or policy of own code.

    Attributes
    ----------
    made, name : the object, and its name in errors
    """

    def __init__(self, made: Any, name: str) -> None:
        self.made, self.name, self._draws = made, name, set[str]()
        with naming("policy", name, "reading it raised"):
            ways = [getattr(made, way, None) for way in _STATE]
            traits = getattr(made, "traits", None)
        # Those of the base class do nothing.
        own = [callable(way) and getattr(way, "__func__", way) not in _NO_STATE for way in ways]
        if own[0] != own[1]:
            has, lacks = _STATE if own[0] else _STATE[::-1]
            raise unusable("policy", name, f"it has {has} and no {lacks}", "write both, or neither")
        self._keeps, self._said = own[0], set[str]()
        self._begun = {} if own[0] else elsewhere(made)
        if isinstance(made, Policy) or hasattr(made, "plan"):
            needed = getattr(traits, "clients_needed", None)
            if not isinstance(traits, PolicyTraits) or type(needed) is not int or needed < 0:
                what = f"its traits are {brief(traits)}"
                raise unusable("policy", name, what, "set traits = PolicyTraits(clients_needed) with a whole number")

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        with naming("policy", self.name, f"reading {attribute} raised"):
            value = getattr(self.made, attribute, _NO_STATE)
        if value is _NO_STATE:
            raise AttributeError(attribute)
        if not callable(value):
            if attribute in _METHODS:
                raise unusable("policy", self.name, f"its {attribute} is {brief(value)}", "write a method")
            return value

        def call(*arguments: Any, **more: Any) -> Any:
            drawn = _global_draws()
            with naming("policy", self.name, f"{attribute} raised"):
                result = value(*arguments, **more)
            self._draws |= {name for name, state in _global_draws().items() if state != drawn[name]}
            check = _CHECKS.get(attribute)
            return result if check is None else check(f"{self.name}.{attribute}", result, arguments)

        return call

    def state_dict(self) -> State:
        """Return its state; without one of its own, its attributes."""
        with naming("policy", self.name, "state_dict raised"):
            if self._keeps:
                return _state(f"{self.name}.state_dict", self.made.state_dict())
            own = {name: value for name, value in getattr(self.made, "__dict__", {}).items() if name != "traits"}
            kept, lost = dump(own)
            now = elsewhere(self.made)
        lost |= {name: "it has changed" for name, value in now.items() if self._begun.get(name) != value}
        lost |= dict.fromkeys(self._draws, "a generator of the whole process")
        warn_of_lost(self.name, lost, self._said)
        return kept

    def load_state_dict(self, state: State) -> None:
        """Restore it."""
        with naming("policy", self.name, "load_state_dict raised"):
            if self._keeps:
                self.made.load_state_dict(state)
                return
            lost = load(getattr(self.made, "__dict__", {}), state)
        warn_of_lost(self.name, lost, self._said)


def _global_draws() -> dict[str, Any]:
    draws = {"random": random.getstate(), "numpy.random": repr(np.random.get_state())}  # noqa: NPY002
    torch = sys.modules.get("torch")
    return draws if torch is None else {**draws, "torch": torch.get_rng_state().numpy().tobytes()}


def elsewhere(made: Any) -> dict[str, bytes]:
    """Return the bytes of each value that an object reads and a checkpoint does not hold.

    These are values of its slots and its classes, the globals of its modules, and what their functions hold. Modules
    that these use are its own, but for installed ones.
    """
    kinds = [kind for kind in type(made).__mro__ if not kind.__module__.startswith(("aoi_fl.", "builtins"))]
    state: Any = object.__getstate__(made)
    places: dict[str, Mapping[str, Any]] = {kind.__name__: vars(kind) for kind in kinds}
    places["slots"] = state[1] if isinstance(state, tuple) else {}
    held = [item for values in (getattr(made, "__dict__", {}), *places.values()) for item in values.items()]
    while held:
        name, one = held.pop()
        module = one.__globals__ if isinstance(one, FunctionType) else vars(one) if isinstance(one, ModuleType) else {}
        title, file = str(module.get("__name__", "aoi_fl.")), module.get("__file__")
        installed = not file or is_installed(Path(file))
        if title.startswith("aoi_fl.") or (installed and title != type(made).__module__):
            continue
        found = {title: module}
        if isinstance(one, FunctionType):
            defaults = {"defaults": [one.__defaults__, one.__kwdefaults__]}
            found[name] = {**inspect.getclosurevars(one).nonlocals, **vars(one), **defaults}
        for place in found.keys() - places.keys():
            places[place] = found[place]
            held += found[place].items()
    return {
        f"{place}.{name}": bytes_of(value)
        for place, values in places.items()
        for name, value in values.items()
        if not name.startswith("__")
    }


def bytes_of(value: Any) -> bytes:
    """Return a value as bytes; none of one that has none, as an open file."""
    try:
        return pickle.dumps(value)
    except Exception:
        return b""


def _selection(where: str, result: Any, arguments: tuple[Any, ...]) -> Selection:
    if not isinstance(result, Selection):
        raise _wrong(where, "a Selection", result, "Return aoi_fl.science.selection.evenly(clients).")
    clients = sound_clients(where, result.clients, len(arguments[1].ages))
    weights = sound_values(f"weights of {where}", result.weights, len(clients), most=1 + 1e-6).astype(np.float64)
    if len(clients) and abs(total := float(weights.sum()) - 1) > 1e-6:
        allowed = f"numbers whose sum is 1, and it is {total + 1:g}"
        raise ConfigError(f"weights of {where}", None, allowed, "Divide them by their sum.")
    draws = sound_values(f"draws of {where}", result.draws, len(clients))
    if (draws < 1).any() or (draws != np.floor(draws)).any():
        raise ConfigError(f"draws of {where}", str(draws.min()), "whole numbers from 1", "Return ones.")
    return Selection(clients, weights, draws.astype(np.int64))


def _rates(where: str, result: Any, arguments: tuple[Any, ...]) -> Floats:
    return sound_values(where, result, len(arguments[0].ages), most=1 + 1e-9).astype(np.float64)


def _described(where: str, result: Any, _: tuple[Any, ...]) -> dict[str, Any]:
    try:
        if isinstance(result, dict):
            json.dumps(result, allow_nan=False)
            return result
    except (TypeError, ValueError, RecursionError):
        pass
    raise _wrong(where, "a dict of JSON values", result, "Return finite numbers, texts, lists and dicts.")


def _state(where: str, result: Any) -> State:
    remedy = "Return a dict of NumPy arrays of numbers by name, of at most 1 GiB."
    if not isinstance(result, Mapping):
        raise _wrong(where, "a dict", result, remedy)
    state = {name: np.asarray(value) for name, value in result.items()}
    for name, array in state.items():
        named = isinstance(name, str) and name and name.isprintable()
        if not named or array.dtype.kind not in "biuf" or array.itemsize > 8:
            allowed = f"of arrays by name, and {brief(name)} is {brief(result[name])}"
            raise ConfigError(where, None, allowed, remedy)
    if sum(array.nbytes for array in state.values()) > _LARGEST:
        raise ConfigError(where, None, "smaller than 1 GiB", remedy)
    return state


def _none_or(kind: type, wanted: str, remedy: str, where: str, result: Any, _: tuple[Any, ...]) -> Any:
    if result is not None and not isinstance(result, kind):
        raise _wrong(where, f"None or {wanted}", result, remedy)
    return result


def _wrong(where: str, wanted: str, result: Any, remedy: str) -> ConfigError:
    return ConfigError(where, None, f"a function that returns {wanted}, and it returned {brief(result)}", remedy)


_CHECKS: dict[str, _Check] = {
    "select": _selection,
    "rates": _rates,
    "describe": _described,
    "observe": partial(_none_or, str, "a reason", "Return None, or a text to end the run."),
    "request_for": partial(
        _none_or, ParticipationRequest, "a request", "Return None, or the request with other fields."
    ),
}
_METHODS = {*_CHECKS, "plan", "learn", "after"} - {"rates"}  # a selector may keep its rates under that name
