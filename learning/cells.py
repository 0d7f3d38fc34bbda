"""The forms of cells: missing values, and numbers, dates and lists that would be read as words or as other numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import compress

import numpy as np

from aoi_fl.science.types import Floats, Mask

Cells = Sequence[str]
Misread = tuple[int, str, str]  # a cell's index, what is allowed in its place, and the remedy
_RARE = 3  # words beside many numbers
_FEW = 5  # different cells that look like numbers may be words, such as age groups
_MANY = 10  # different cells with digits, each in less than four rows on average, are no words
_LONG = 100  # characters of a cell that are looked at
_EXACT = 2**53  # larger whole numbers are no exact floating-point numbers
MISSING = re.compile(r"|na|n/a|n\.a\.|#n/a|<na>|nan|nat|null|\\n|\?", re.I)
_NO_NUMBER = re.compile(r"none|nil|--?|–|—|\.|\.\.\.|…|\*|unknown|missing|#(div/0|value|num|ref|null)!", re.I)
# 2024-01-31T10:00, 31.1.24; 20240131T1000; 2024-01, 2024-W05, 2024 Q1; Q1 2024; 13:45:00.5 pm, 1h30; 3 days 01:00.
# March 3, 3-Mar-24, 03MAR2024; 3. März 2024, 3 de mayo de 2024.
_DATE = re.compile(
    r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}([T ].*)?|\d{8}T\d+.*|(1[89]|20)\d\d[-/ ]?[wqm]?\d{1,2}|q\d[-/ ](1[89]|20)\d\d|"
    r"\d{1,2}(:|h)\d{2}(:\d{2}([.,]\d+)?)?( ?[ap]m)?|\d+ days?\b.*|"
    r"(?=.*\d)[\w ,.-]*(?<![^\W\d_])(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*(?![^\W\d_])[\w ,.:-]*|"
    r"\d{1,2}\.?[ -](de )?[^\W\d_]{3,}\.?,?[ -](de )?\d{2,4}.*",
    re.I,
)
# Numbers that need another form: 1,5 and 1.234,5; 12 %; $ 3; EUR 3; <0.5; 5 kg; (5) and 5- for -5; 3 ± 1; 1/2; 2×10^3.
_NUMBER = re.compile(
    r"\(?[<>≤≥~]?=?\s*([$€£¥]|[A-Z]{3}\s)?\s*[-+−]?[\d.,'’_\s]*\d[\d.,'’_\s]*((e|\s?[×x*]\s?10\^?)[-+−]?\d+)?"
    r"\s*((±|\+/-)\s*[\d.,]+|/\s?\d+|%|[$€£¥]|\s[A-Za-zµ°/²³]+)?[-−]?\)?|0x[\da-f]+",
    re.I,
)
_LIST = re.compile(r"\[.*\]|\{.*\}", re.S)
_DIGITS = re.compile(r"(?![^\W\d_][\w #-]*?\d+\Z).*\d.*", re.S)  # 5kg, Rs. 5, [5], and no word with a number such as s5
_DAY = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])?")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})?|0")
_PADDED = re.compile(r"[-+]?0\d")
_CODE = re.compile(r"[-+]?\d+(\.0*)?")


def understand(cells: Cells) -> tuple[Floats | None, Mask, Misread | None]:
    """Return what a column's cells without blanks around are.

    Returns
    -------
    tuple
        The cells as numbers (N,), NaN for missing ones, or None for words; whether each cell is there (N,); and the
        first cell in a form that would be misread, if any.
    """
    import pandas

    numbers = np.asarray(pandas.to_numeric(pandas.Series(cells, dtype=object), errors="coerce"), np.float64)
    written = ~_fits(MISSING, cells)
    present = written & ~_fits(_NO_NUMBER, cells)
    if 2 * np.count_nonzero(~np.isnan(numbers)) < np.count_nonzero(present):
        return None, written, _misread(_WORDS, cells, numbers, written)
    if _are_codes([*compress(cells, present)], numbers[present]):
        return None, present, None
    return numbers, present, _misread(_NUMBERS, cells, numbers, present)


def _fits(pattern: re.Pattern[str], cells: Cells) -> Mask:
    return np.array([pattern.fullmatch(cell[:_LONG]) is not None for cell in cells], bool)


def _misread(forms: Sequence[_Form], cells: Cells, numbers: Floats, present: Mask) -> Misread | None:
    """Return the first cell of the first form that fits, of these a word if there is one."""
    places = np.flatnonzero(present).tolist()
    cells, numbers = [cells[i] for i in places], numbers[present]
    for find, most, share, allowed, remedy in forms:
        found = np.flatnonzero(find(cells, numbers)).tolist()
        if len({cells[i] for i in found}) > most and len(found) >= share * len(cells):
            return places[min(found, key=lambda i: not np.isnan(numbers[i]))], allowed, remedy
    return None


def _are_codes(cells: Cells, numbers: Floats) -> bool:
    """Return whether whole numbers (n,) are codes, such as 007 and 7, of which float64 makes one of several."""
    words = {*cells}
    return (
        (bool((np.abs(numbers) >= _EXACT).any()) or any(map(_PADDED.match, words)))
        and len(words) > len(np.unique(numbers))
        and all(map(_CODE.fullmatch, words))
    )


_Find = Callable[[Cells, Floats], Mask]  # which of the cells have a form


def _all_of(pattern: re.Pattern[str]) -> _Find:
    return lambda cells, _: _fits(pattern, cells)


def _thousands(cells: Cells, numbers: Floats) -> Mask:
    """Return which numbers have a point for thousands; none if all have a point, or some have another form."""
    pointed = np.array(["." in cell for cell in cells], bool)
    return pointed & bool(len({*cells}) > _FEW and not pointed.all() and _fits(_THOUSANDS, cells).all())


def _beside_numbers(cells: Cells, numbers: Floats) -> Mask:
    """Return a few words beside many different numbers."""
    words = np.isnan(numbers)
    different = len({*compress(cells, words)})
    return words & (different <= _RARE and len({*cells}) > different + _MANY)


def _with_digits(cells: Cells, numbers: Floats) -> Mask:
    """Return cells with digits that are no words with a number; none if each occurs in many rows."""
    found = _fits(_DIGITS, cells)
    return found & (len({*compress(cells, found)}) > len(cells) // 4)


# The cells of a form, more than how many different ones, the share of all cells, what is allowed, and the remedy.
_Form = tuple[_Find, int, float, str, str]
_WORDS: Sequence[_Form] = (
    (_beside_numbers, 0, 0, "a number, as in other rows, or empty", "Empty these cells and set missing=median"),
    (_all_of(_DATE), 1, 0.5, "a number or a word, not a date or a time", "Write the days or seconds since a first one"),
    (_all_of(_LIST), 1, 0.5, "a number or a word, not a list of values", "Give each value a column of its own"),
    (
        _all_of(_NUMBER),
        _FEW,
        0.5,
        "a number with a decimal point, without marks and units",
        "Write it as in 1234.5",
    ),
    (
        _with_digits,
        _MANY,
        0.5,
        "a number or a word that repeats",
        "Write numbers without marks, dates as days since a first one",
    ),
)
# Numbers that pandas reads as others: 20240131, 202401, and 1.500 for 1500 beside 500.
_NUMBERS: Sequence[_Form] = (
    (
        lambda cells, numbers: ~np.isfinite(numbers),
        0,
        0,
        "a finite number with a decimal point, as in most rows",
        "Correct the cell, leave out the row",
    ),
    (_all_of(_DAY), _FEW, 1, "a number, not a date", "Write the days since a first one"),
    (
        _thousands,
        0,
        0,
        "a number without a point for thousands",
        "Write it as in 1234.5, or each number with all its decimals",
    ),
)
