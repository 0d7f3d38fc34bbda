"""Errors a user can act on.

AoiError
├── ConfigError      a value of the configuration, or of a file named in it, is wrong
├── NodesError       fewer clients are connected than the run needs
├── NothingTrainedError  not one update of the run could be used
├── ResumeError      a run's folder cannot be continued, or must not be overwritten
└── StorageError     what must be kept cannot be written: the disk is full, or was taken away

Every message names the thing, its value, and the remedy. The commands print it without a traceback and exit
with status 2.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral

_MOST = 200  # characters of a value in a message
NAMES = "at most 100 letters, digits, '.', '_' and '-', a letter or digit first"
"""What the name of a run or a client may be."""


class AoiError(Exception):
    """Base of every error that is the user's to mend."""


class ConfigError(AoiError, ValueError):
    """A value of the configuration, or of a file named in it, is wrong.

    Parameters
    ----------
    key : name of the run key, option, argument, or place in a file
    value : its value; None for none
    allowed : the end of a sentence that begins with "must be", or the values to choose from
    remedy : a sentence with the next step

    >>> print(ConfigError("clients-per-round", 200, "at most num-clients, 100", "Lower it."))
    clients-per-round is 200, but must be at most num-clients, 100. Lower it.
    >>> print(ConfigError("coordination", "pol", ("poll", "broadcast"), "Choose one of these."))
    coordination is 'pol', but must be one of poll, broadcast. Did you mean 'poll'? Choose one of these.
    """

    def __init__(self, key: str, value: object, allowed: str | Collection[str], remedy: str) -> None:
        self.key, self.value, self.remedy = key, value, remedy
        self.allowed = allowed if isinstance(allowed, str) else tuple(allowed)
        super().__init__(key, value, self.allowed, remedy)

    @property
    def problem(self) -> str:
        """The message without the remedy."""
        allowed, near = self.allowed, ""
        if not isinstance(allowed, str):
            near = did_you_mean(shown(self.value).strip("'"), allowed)
            allowed = f"one of {', '.join(allowed)}"
        given = "" if self.value is None else f" is {shown(self.value)}, but"
        return f"{self.key}{given} must be {allowed}.{near}"

    def __str__(self) -> str:
        return shortened(f"{self.problem} {self.remedy}")

    def within(self, place: object) -> "ConfigError":
        """Return the error of a value in a place, such as a file."""
        return ConfigError(f"{place}: {self.key}", self.value, self.allowed, self.remedy)


@contextmanager
def refusing(
    errors: type[Exception] | tuple[type[Exception], ...], key: str, value: object, allowed: str, remedy: str
) -> Iterator[None]:
    """Raise ConfigError in the place of other errors within the block; their text follows ``allowed`` in brackets."""
    try:
        yield
    except ConfigError:
        raise
    except errors as error:
        named = str(getattr(error, "filename", None) or value) == str(value)  # else the file is another
        reason = str((named and getattr(error, "strerror", None)) or error)
        raise ConfigError(key, value, f"{allowed} ({' '.join(reason.split())})", remedy) from error


def check_choice(key: str, value: object, known: Collection[str]) -> None:
    """Raise ConfigError unless a value is one of those to choose from."""
    if value not in known:
        raise ConfigError(key, value, known, "Choose one of these.")


def check_whole(key: str, value: object, least: int = 1) -> None:
    """Raise ConfigError unless a value is a whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ConfigError(key, value, f"a whole number from {least} on", "Give such a number.")


def unknown_rates(policy: str) -> ConfigError:
    """Return the refusal of unbiased weights under a policy without known rates."""
    remedy = "Leave it out, or choose random, oldest-age, or a policy under which clients decide."
    return ConfigError("weights", "unbiased", f"auto, equal or size under {policy}, whose rates are unknown", remedy)


class ConfigErrors(ConfigError):
    """Several wrong values (``errors``, in order); the fields are those of the first."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        first = errors[0]
        super().__init__(first.key, first.value, first.allowed, first.remedy)
        self.errors = tuple(errors)
        self.args = (self.errors,)

    def __str__(self) -> str:
        return " ".join(map(str, self.errors))


class NodesError(AoiError):
    """Fewer clients are connected than the run needs."""


class ResumeError(AoiError):
    """A run's folder cannot be continued, or must not be overwritten."""


class StorageError(AoiError):
    """What must be kept cannot be written: the disk is full, or was taken away."""


class NothingTrainedError(AoiError):
    """Not one update of the run could be used: its model is the one that it began with."""


def shown(value: object) -> str:
    """Return a value as a message shows it, without the middle of a long one."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, int) and value.bit_length() > _MOST:  # Python does not print the longest numbers
        return f"about {'-' * (value < 0)}1e{round(value.bit_length() * math.log10(2))}"
    return _cut(repr(value) if isinstance(value, str) else str(value))


def shortened(text: str) -> str:
    """Return a text on one line, without the middle of its longest words."""
    return printable(" ".join(map(_cut, text.split())))


def printable(text: str) -> str:
    """Return a text without control characters, line ends and bidirectional marks."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[: _MOST // 2]}…{text[-_MOST // 4 :]}"


def install(extra: str) -> str:
    """Return how to install an extra beside the package.

    >>> install("report")
    "pip install 'aoi-fl[report]'"
    """
    return f"pip install 'aoi-fl[{extra}]'"


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return a question for the nearest known name, with a space before it; empty if none is near.

    >>> did_you_mean("polcy", ["policy", "seed"])
    " Did you mean 'policy'?"
    """
    import difflib  # a correct name needs no import

    near = difflib.get_close_matches(given, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
