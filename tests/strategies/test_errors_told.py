"""What the server says of a client's error: its kind and message on one line, and where the app has raised it."""

import pytest

from aoi_fl.protocol.own_code import error_and_place
from aoi_fl.strategies.validation import what_failed

ERRORS = {
    "a label is 12": ValueError("a label is 12"),
    "size mismatch: w (3, 2) b (4,)": RuntimeError("size mismatch:\n\tw (3, 2)\n\tb (4,)"),
    "": AssertionError(),
    "two (2 sub-exceptions); ValueError: one; KeyError: 'k'": ExceptionGroup("two", [ValueError("one"), KeyError("k")]),
    "3": SystemExit(3),
}


@pytest.mark.parametrize("message", ERRORS)
def test_an_error_is_one_line_with_its_kind_and_place(message):
    try:
        raise ERRORS[message]
    except BaseException as error:
        line = error_and_place(error)
    assert line.startswith(f"{type(ERRORS[message]).__name__}: {message}") and "(test_errors_told.py:" in line
    assert what_failed(line) == line


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("<class 'ValueError'>:<'first\nsecond'>", "ValueError: first; second"),
        ("<class 'my.app.Trouble'>:<'x'>", "Trouble: x"),
        ("plain words\nand more", "plain words; and more"),
        (None, "no reason given"),
        ("\n \n", "no reason given"),
    ],
)
def test_a_reason_of_flowers_own_is_told_the_same(reason, said):
    assert what_failed(reason) == said


@pytest.mark.parametrize("reason", ["x" * 10**7, 'File "a", line 1\n' * 10**6, "\n" * 10**7])
def test_a_reason_without_end_is_cut(reason):
    assert len(what_failed(reason)) <= 300
