"""Translate former names of run keys and arguments; no other module knows them.

Former keys may come from the command line, a TOML file, an environment variable, a ledger or a client's context.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from aoi_fl.science.errors import ConfigError

RENAMED = {"wire": "coordination"}
"""Present names by former ones."""
DELETED = {"drift-degrees": 1.0, "stream-window": 0}
"""Keys without a successor, with the default at which they are ignored."""
IGNORED: Mapping[str, tuple[Any, str]] = {
    "deterministic": (True, "Leave it out: updates are always added in client order."),
    "evaluate-timeout": (600.0, "Leave it out, and set train-timeout: evaluations have as long, and 600 s at least."),
}
"""Keys without a successor and without effect on results, with their former defaults and remedies."""
MERGED: Mapping[str, Mapping[str, Any]] = {
    "partition": {"alpha": 0.6, "client": "", "spare-shares": 0},
    "model": {"zeros": False},
    "budget": {"total-budget": 0.0},
    "staleness": {"mislabel-rate": 0.05, "mislabel-cap": 0.9, "staleness-rates": "equal", "discount": 0.0},
    "device": {"precision": "float32", "threads": 1, "train-together": "auto"},
    "compression": {"packing": "auto"},
    "learning-rate": {"learning-rate-decay": 0.0},
    "local-work": {"local-epochs": 0, "local-steps": 0},
    "phases": {"jitter": 0.0},
    "compensate": {"adaptive-dropout": False, "absence": "ignored"},
    "smoothing": {"server-momentum": 0.0, "serve-average": 0.0},
    "privacy": {"bands": 0},
    "budget-rule": {"strict-budget": False, "stop-at-first": False},
}
"""Former keys with their defaults, by the present key that includes them."""
FORMER: Mapping[str, str] = RENAMED | {old: key for key, parts in MERGED.items() for old in parts}
"""The present key of each former one."""


class FormerNameWarning(DeprecationWarning):
    """A run key or an argument was given under a former name."""


def present(values: Mapping[str, Any], *, warn: bool = True) -> dict[str, Any]:
    """Return run keys under their present names.

    A deleted key is dropped at its default, because older ledgers record every key. With another value it stays, and
    the check of all keys refuses it. An ignored key is dropped.

    Parameters
    ----------
    values : run keys, present or former
    warn : whether a former name causes a :class:`FormerNameWarning`; if not, a part without effect is dropped, as for
        an older ledger

    Raises
    ------
    ConfigError
        A key is given under both names, a part does not fit its key, or an ignored key differs from its former
        default.

    >>> present({"stream-window": 0, "wire": "reserve"}, warn=False)
    {'coordination': 'reserve'}
    >>> present({"partition": "dirichlet", "alpha": 0.3}, warn=False)
    {'partition': 'dirichlet:0.3'}
    """
    keys: dict[str, Any] = {}
    for key, value in values.items():
        if key in DELETED and _same(value, DELETED[key]):
            continue
        if key in IGNORED:
            usual, remedy = IGNORED[key]
            if warn and not _same(value, usual):
                raise ConfigError(key, value, f"{str(usual).lower()}, because it is no run key any more", remedy)
            if warn:
                warnings.warn(f"{key} is no run key any more. {remedy}", FormerNameWarning, stacklevel=3)
            continue
        new = RENAMED.get(key, key)
        if new != key:
            if new in values:
                raise ConfigError(key, value, f"left out: its name is now {new}, which is set", "Leave it out.")
            if warn:
                _warn(key, new)
        keys[new] = value
    for new, parts in MERGED.items():
        given = {old: keys.pop(old) for old in parts if old in keys}
        used = {old: value for old, value in given.items() if not _same(value, parts[old])}
        if not used:
            continue
        whole, rest = _merged(new, keys.get(new), {**parts, **used}), set(used)
        if whole is None:
            if warn:
                old = next(iter(used))
                is_set = f", which is {keys[new]}" if new in keys else ""
                allowed = f"left out: it is now a part of {new}{is_set}"
                raise ConfigError(old, used[old], allowed, f"Set {new} alone.")
            continue
        keys[new] = whole
        for old in sorted(rest) if warn else ():
            _warn(old, new, f"{new}={whole}")
    return keys


def _same(value: Any, default: Any) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return str(value).lower() == str(default).lower()
    try:
        return float(value) == float(default)
    except ValueError:
        return bool(value == default)


def _merged(key: str, whole: Any, parts: Mapping[str, Any]) -> str | None:
    """Return a key's value with its former parts, or None if they do not fit that value."""
    text = "" if whole is None else str(whole)

    def used(*olds: str) -> bool:
        return any(not _same(parts[old], MERGED[key][old]) for old in olds)

    true = {old for old, value in parts.items() if str(value).lower() == "true"}
    match key:
        case "partition" if parts["client"]:
            return f"column:{parts['client']}" if text in ("", "iid") and not used("spare-shares") else None
        case "partition" if used("alpha") and text != "dirichlet":
            return None
        case "partition":
            text = f"dirichlet:{parts['alpha']}" if text == "dirichlet" else text or "iid"
            return f"{text}+spare:{parts['spare-shares']}" if used("spare-shares") else text
        case "model":
            return f"{text}:zeros" if text in ("lr", "svm") else None
        case "budget":
            return None if ":" in text else f"{text or '40.0'}:{parts['total-budget']}"
        case "staleness":
            own = ":own" if parts["staleness-rates"] == "own" else ""
            if text == "mislabelled":
                text = f"{text}:{parts['mislabel-rate']}:{parts['mislabel-cap']}{own}"
            elif not text.startswith("mislabelled") or used("mislabel-rate", "mislabel-cap", "staleness-rates"):
                return None
            return f"{text}+discount:{parts['discount']}" if used("discount") else text
        case "device":
            words = [text or "auto", *([str(parts["precision"])] if used("precision") else [])]
            words += [f"threads:{parts['threads']}"] if used("threads") else []
            together = {"always": ["together"], "never": ["alone"]}.get(str(parts["train-together"]), [])
            return None if "+" in text else "+".join([*words, *together])
        case "compression":
            return f"{text or 'none'}+unpacked" if parts["packing"] == "none" and "+" not in text else None
        case "learning-rate":
            return None if ":" in text else f"{text or 'auto'}:{parts['learning-rate-decay']}"
        case "local-work" if text in ("", "auto"):
            steps = parts["local-steps"]
            return f"epochs:{parts['local-epochs']}" if str(steps) == "0" else f"steps:{steps}"
        case "phases":
            return None if ":" in text else f"{text or 'spread'}:{parts['jitter']}"
        case "compensate" if text in ("", "none") and str(parts["absence"]) in ("ignored", "learned"):
            both = bool(true) and parts["absence"] == "learned"
            return None if both else "dropout" if true else "availability"
        case "smoothing" if text in ("", "none"):
            kept = {"momentum": parts["server-momentum"], "average": parts["serve-average"]}
            return "+".join(f"{name}:{value}" for name, value in kept.items() if not _same(value, 0))
        case "privacy":
            bands = str(parts["bands"])
            return f"banded:{bands}" if text == "banded" else text if bands == "1" and text == "white" else None
        case "budget-rule" if text in ("", "skip") and len(true) == 1:
            return "strict" if "strict-budget" in true else "stop"
        case _:
            return None


def argument(settings: dict[str, Any], name: str, value: Any) -> Any:
    """Return a constructor's argument; remove it from ``settings`` under its former name."""
    for former in (old for old, new in RENAMED.items() if new == name and old in settings):
        _warn(former, name)
        value = settings.pop(former)
    parts = [old for old in MERGED.get(name, ()) if old.replace("-", "_") in settings]
    given = {old: settings.pop(old.replace("-", "_")) for old in parts}
    return present({**given, name: value})[name] if given else value


def show_former_names(show: Callable[[str], None]) -> None:
    """Show each former name that is in use as a sentence, once."""
    usual = warnings.showwarning

    def shown(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, FormerNameWarning):
            show(str(message))
        else:
            usual(message, category, *place, **more)

    warnings.showwarning = shown
    warnings.simplefilter("default", FormerNameWarning)


def _warn(former: str, name: str, written: str = "") -> None:
    text = f"{former} is now {name}. Write {written or name} in its place."
    warnings.warn(text, FormerNameWarning, stacklevel=4)
