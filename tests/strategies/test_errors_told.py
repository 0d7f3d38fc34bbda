"""What the server says of a client's error: its kind and first line, whatever else the traceback holds."""

import traceback
from collections.abc import Callable

import pytest

from aoi_fl.strategies.validation import what_failed


def told(raising: Callable[[], object]) -> str:
    """Return what is said of the traceback of a function, as the engines send it."""
    try:
        raising()
    except BaseException:
        return what_failed(traceback.format_exc())
    raise AssertionError


def throw(error: BaseException, *notes: str, cause: BaseException | None = None) -> Callable[[], object]:
    def raising() -> object:
        for note in notes:
            error.add_note(note)
        raise error from cause

    return raising


def raised(error: Exception) -> Exception:
    """Return an error that has a traceback of its own."""
    try:
        raise error
    except Exception as found:
        return found


CASES = {
    "one line": (throw(ValueError("a label is 12")), "ValueError: a label is 12"),
    "several lines": (throw(RuntimeError("size mismatch:\n\tw (3, 2)\n\tb (4,)")), "RuntimeError: size mismatch:"),
    "an empty line first": (throw(ValueError("\n\nsecond")), "ValueError:"),
    "a note": (throw(KeyError("x"), "while reading row 7"), "KeyError: 'x'; while reading row 7"),
    "notes of several lines": (throw(KeyError("x"), "a\nb", "c"), "KeyError: 'x'; a; b; c"),
    "no message": (throw(AssertionError()), "AssertionError"),
    "a cause": (throw(RuntimeError("outer"), cause=raised(ValueError("inner\nmore"))), "RuntimeError: outer"),
    "a group": (
        throw(ExceptionGroup("two", [ValueError("one\nmore"), raised(KeyError("k"))])),
        "ExceptionGroup: two (2 sub-exceptions): ValueError: one; KeyError: 'k'",
    ),
    "a group in a group": (
        throw(ExceptionGroup("out", [ExceptionGroup("in", [raised(TypeError("t"))])])),
        "ExceptionGroup: out (1 sub-exception): ExceptionGroup: in (1 sub-exception); TypeError: t",
    ),
    "a group as a cause": (
        throw(OSError("outer"), cause=raised(ExceptionGroup("g", [KeyError("k")]))),
        "OSError: outer",
    ),
    "a traceback in the message": (
        throw(RuntimeError('worker died:\nTraceback (most recent call last):\n  File "x", line 1\nValueError: v')),
        "RuntimeError: worker died:",
    ),
    "an end": (throw(SystemExit(3)), "SystemExit: 3"),
    "a syntax error": (lambda: compile("def (", "mine.py", "exec"), "SyntaxError: "),
}


@pytest.mark.parametrize("what", CASES)
def test_a_traceback_is_told_by_kind_and_first_line(what):
    raising, begins = CASES[what]
    assert told(raising).startswith(begins)


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("<class 'ValueError'>:<'first\nsecond'>", "ValueError: first; second"),
        ("<class 'my.app.Trouble'>:<'x'>", "Trouble: x"),
        ("<class 'KeyError'>:<''k''>", "KeyError: 'k'"),
        ("plain words\nand more", "plain words; and more"),
        (None, "no reason given"),
        ("", "no reason given"),
        ("\n \n", "no reason given"),
    ],
)
def test_a_reason_of_flowers_own_is_told_the_same(reason, said):
    assert what_failed(reason) == said


@pytest.mark.parametrize(
    "reason", ["x" * 10**7, 'File "a", line 1\n' * 10**6, " |" * 10**6, "  + " * 10**6, "\n" * 10**7]
)
def test_a_reason_without_end_is_cut(reason):
    assert len(what_failed(reason)) <= 300
