"""Values of run keys that have parts, such as ``spread:0.2``, for the groups and for builders of policies."""

import math
from typing import Literal, cast, get_args

from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import PhaseRule

Compensate = Literal["none", "dropout", "availability"]
MILLION = 1_000_000


def number(key: str, value: object, text: str, low: float, high: float, *, whole: bool = False) -> float:
    """Return a number that is a part of a key's value.

    Raises
    ------
    ConfigError
        It is not a number from ``low`` to ``high``.
    """
    try:
        found: float = int(text) if whole else float(text)
    except ValueError:
        found = math.nan
    if not low <= found <= high:
        kind = "whole number" if whole else "number"
        raise ConfigError(key, value, f"with a {kind} from {low:g} to {high:g}", "Correct the number.")
    return found


def local_work(text: str) -> tuple[int, int]:
    """Return epochs and steps of a value of ``local-work``; 0 and 0 stand for the data set's own.

    >>> local_work("steps:10"), local_work("auto")
    ((0, 10), (0, 0))
    """
    kind, _, count = text.partition(":")
    if text == "auto":
        return 0, 0
    if kind not in ("epochs", "steps"):
        raise ConfigError("local-work", text, ("auto", "epochs:N", "steps:N"), "Choose one of these.")
    found = int(number("local-work", text, count, 0, 10**7 if kind == "steps" else 10**5, whole=True))
    return (found, 0) if kind == "epochs" else (0, found)


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
    found: dict[str, float] = {}
    for part in text.split("+") if text != "none" else ():
        kind, _, share = part.strip().partition(":")
        if kind not in ("momentum", "average") or kind in found:
            form = ("none", "momentum:β", "average:β", "momentum:β+average:β")
            raise ConfigError("smoothing", text, form, "Choose one of these.")
        found[kind] = float(number("smoothing", text, share, 0, 0.999))
    return {kind: found[kind] for kind in ("momentum", "average") if kind in found}


def budgets(text: str) -> tuple[float, float]:
    """Return the budget of a round and that of all rounds; infinity is no limit.

    >>> budgets("40")
    (40.0, inf)
    """
    each, _, total = text.partition(":")
    most = number("budget", text, total, 0, 1e18) if total else 0.0
    return number("budget", text, each, 1e-9, 1e12), most or math.inf
