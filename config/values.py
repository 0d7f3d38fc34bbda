"""Parse values of run keys with several parts, such as ``spread:0.2``."""

import math
from collections.abc import Iterable, Mapping
from typing import Literal, cast, get_args

from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import PhaseRule

Compensate = Literal["none", "dropout", "availability"]
MILLION = 1_000_000


def number(key: str, value: object, text: str, low: float, high: float, *, whole: bool = False) -> float:
    """Parse a number in a key's value.

    Raises
    ------
    ConfigError
        The text is not a number from ``low`` to ``high``.
    """
    try:
        parsed: float = int(text) if whole else float(text)
    except ValueError:
        parsed = math.nan
    if not low <= parsed <= high:
        kind = "whole number" if whole else "number"
        raise ConfigError(key, value, f"with a {kind} from {low:g} to {high:g}", "Correct the number.")
    return parsed


def parts_of(
    key: str, text: str, words: Iterable[str], known: Mapping[str, tuple[float, float] | None], form: tuple[str, ...]
) -> dict[str, float]:
    """Parse the parts of a key's value, such as ``cpu+threads:2``, in the order of ``known``.

    Parameters
    ----------
    key, text : the key and its value
    words : the parts as written
    known : the range of each part's number, of whole numbers if its ends are; None: the part has no number
    form : the allowed values, for errors

    Raises
    ------
    ConfigError
        A part is unknown, given twice, or out of range.

    >>> parts_of("device", "cpu+threads:2", ["threads:2"], {"together": None, "threads": (1, 8)}, ())
    {'threads': 2}
    """
    parts: dict[str, float] = {}
    for word in words:
        name, colon, value = word.strip().partition(":")
        if name not in known or name in parts or bool(colon) != (known[name] is not None):
            raise ConfigError(key, text, form, "Choose one of these.")
        low, high = known[name] or (1, 1)
        parts[name] = number(key, text, value, low, high, whole=isinstance(high, int)) if colon else 1
    return {name: parts[name] for name in known if name in parts}


def joined(head: str, parts: Mapping[str, float], known: Mapping[str, tuple[float, float] | None]) -> str:
    """Return a key's value with its parts.

    >>> joined("cpu", {"threads": 2}, {"threads": (1, 8)})
    'cpu+threads:2'
    """
    return "+".join([head, *(name if known[name] is None else f"{name}:{value}" for name, value in parts.items())])


SPARE: Mapping[str, tuple[float, float]] = {"spare": (0, MILLION)}
DISCOUNT: Mapping[str, tuple[float, float]] = {"discount": (0.0, 1.0)}
UNPACKED: Mapping[str, None] = {"unpacked": None}
COMPUTING: Mapping[str, tuple[float, float] | None] = {
    "tf32": None,
    "bfloat16": None,
    "threads": (1, 1024),
    "together": None,
    "alone": None,
}


def device_of(text: str) -> tuple[str, dict[str, float]]:
    """Return the processor and the other parts of a value of ``device``.

    >>> device_of("cpu+threads:2")
    ('cpu', {'threads': 2})
    """
    head, *words = text.split("+")
    form = ("auto", "cpu", "cuda", "one of these with +tf32, +bfloat16, +threads:N, +together or +alone")
    parts = parts_of("device", text, words, COMPUTING, form)
    if head not in form[:3] or {"tf32", "bfloat16"} <= parts.keys() or {"together", "alone"} <= parts.keys():
        raise ConfigError("device", text, form, "Choose one of these.")
    return head, parts


def threads_of(device: object) -> int:
    """Return the torch threads of a value of ``device``."""
    return int(device_of(str(device))[1].get("threads", 1))


def local_work(text: str) -> tuple[int, int]:
    """Return epochs and steps of a value of ``local-work``; 0 and 0 are the data set's default.

    >>> local_work("steps:10"), local_work("auto")
    ((0, 10), (0, 0))
    """
    kind, _, count = text.partition(":")
    if text == "auto":
        return 0, 0
    if kind not in ("epochs", "steps"):
        raise ConfigError("local-work", text, ("auto", "epochs:N", "steps:N"), "Choose one of these.")
    work = int(number("local-work", text, count, 0, 10**7 if kind == "steps" else 10**5, whole=True))
    return (work, 0) if kind == "epochs" else (0, work)


def phases_of(text: str) -> tuple[PhaseRule, float]:
    """Return rule and jitter of a value of ``phases``.

    >>> phases_of("spread:0.2")
    ('spread', 0.2)
    """
    rule, colon, jitter = text.partition(":")
    if rule not in get_args(PhaseRule):
        raise ConfigError("phases", text, ("spread", "random", "spread:JITTER"), "Choose one of these.")
    return cast(PhaseRule, rule), float(number("phases", text, jitter, 0, 1)) if colon else 0.0


def smoothing(text: str) -> dict[str, float]:
    """Return momentum and average of a value of ``smoothing``.

    >>> smoothing("average:0.8")
    {'average': 0.8}
    """
    known, form = dict.fromkeys(("momentum", "average"), (0.0, 0.999)), ("none", "momentum:β", "average:β")
    words = () if text == "none" else text.split("+")
    return parts_of("smoothing", text, words, known, (*form, "momentum:β+average:β"))


def budgets(text: str) -> tuple[float, float]:
    """Return the budget of a round and the budget of all rounds; infinity is no limit.

    >>> budgets("40")
    (40.0, inf)
    """
    each, _, total = text.partition(":")
    most = number("budget", text, total, 0, 1e18) if total else 0.0
    return number("budget", text, each, 1e-9, 1e12), most or math.inf


def names_of(key: str, value: str) -> tuple[str, ...]:
    """Return the names of a list separated by commas.

    Raises
    ------
    ConfigError : a name is empty or occurs twice.
    """
    names = tuple(name.strip() for name in value.split(",")) if value.strip() else ()
    for i, name in enumerate(names):
        if name in ("", "tag:") or name in names[:i]:
            raise ConfigError(key, value, f"distinct names, and {name or 'an empty one'!r} is not", "Correct the list.")
    return names
