"""The forms of cells: missing values, and numbers, dates and lists that would be read as words or as other numbers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Cells = Mapping[int, str]  # by index
Misread = tuple[int, str, str]  # a cell's index, what is allowed in its place, and the remedy
_RARE = 3  # words beside many numbers
_FEW = 5  # different cells that look like numbers may be words, such as age groups
_MANY = 10  # different cells with digits, each in less than four rows on average, are no words
_LONG = 100  # characters of a cell that are looked at
_EXACT = 2**53  # larger whole numbers are no exact floating-point numbers
MISSING = re.compile(r"|na|n/a|n\.a\.|#n/a|<na>|nan|nat|null|\\n|\?", re.I)
_NO_NUMBER = re.compile(r"none|nil|--?|–|—|\.|\.\.\.|…|\*|unknown|missing|#(div/0|value|num|ref|null)!", re.I)
# 2024-01-31T10:00, 31.1.24; 20240131T1000; 2024-01, 2024-W05, 2024 Q1; Q1 2024; 13:45:00.5 pm, 1h30; 3 days 01:00.
_DATE = re.compile(
    r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}([T ].*)?|\d{8}T\d+.*|(1[89]|20)\d\d[-/ ]?[wqm]?\d{1,2}|q\d[-/ ](1[89]|20)\d\d|"
    r"\d{1,2}(:|h)\d{2}(:\d{2}([.,]\d+)?)?( ?[ap]m)?|\d+ days?\b.*",
    re.I,
)
# March 3, 3-Mar-24, 03MAR2024; 3. März 2024, 3 de mayo de 2024.
_MONTH = re.compile(
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
_AFFIXED = re.compile(r"(\D*?)([-+−]?\d[\d.,]*)(\D*)")  # 5kg, Rs. 5, [5], and words such as s5
_LIST = re.compile(r"\[.*\]|\{.*\}", re.S)
_IDENTIFIER = re.compile(r"[^\W\d_][\w #-]*?\d+")
_DAY = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])?")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})?|0")
_PADDED = re.compile(r"[-+]?0\d")
_CODE = re.compile(r"[-+]?\d+(\.0*)?")


def understand(cells: Sequence[str]) -> tuple[Floats | None, Cells, Misread | None]:
    """Return what a column's cells without blanks around are.

    Returns
    -------
    tuple
        The cells as numbers (N,), NaN for missing ones, or None for words; the cells that are not missing; and the
        first cell in a form that would be misread, if any.
    """
    import pandas

    numbers = np.asarray(pandas.to_numeric(pandas.Series(cells, dtype=object), errors="coerce"), np.float64)
    written = {i: cell for i, cell in enumerate(cells) if not MISSING.fullmatch(cell)}
    present = {i: cell for i, cell in written.items() if not _NO_NUMBER.fullmatch(cell)}
    if 2 * np.count_nonzero(~np.isnan(numbers)) < len(present):
        return None, written, _misread(_WORDS, written, numbers)
    if _are_codes(present, numbers[[*present]]):
        return None, present, None
    return numbers, present, _misread(_NUMBERS, present, numbers)


def _misread(forms: Sequence[_Form], cells: Cells, numbers: Floats) -> Misread | None:
    """Return the first cell of the first form that fits, of these a word if there is one."""
    for find, most, share, allowed, remedy in forms:
        found = find(cells, numbers)
        if len({cells[i] for i in found}) > most and len(found) >= share * len(cells):
            return min(found, key=lambda i: not np.isnan(numbers[i])), allowed, remedy
    return None


def _are_codes(cells: Cells, numbers: Floats) -> bool:
    """Return whether whole numbers (n,) are codes, such as 007 and 7, of which float64 makes one of several."""
    words = {*cells.values()}
    return (
        (bool((np.abs(numbers) >= _EXACT).any()) or any(map(_PADDED.match, words)))
        and len(words) > len(np.unique(numbers))
        and all(map(_CODE.fullmatch, words))
    )


_Find = Callable[[Cells, Floats], list[int]]  # which of the cells have a form


def _all_of(pattern: re.Pattern[str]) -> _Find:
    return lambda cells, _: [i for i, cell in cells.items() if pattern.fullmatch(cell[:_LONG])]


def _infinite_or_words(cells: Cells, numbers: Floats) -> list[int]:
    return [i for i in cells if not np.isfinite(numbers[i])]


def _thousands(cells: Cells, numbers: Floats) -> list[int]:
    """Return numbers that may have a point for thousands, those with a point first; none if all or none have one."""
    pointed = [i for i, cell in cells.items() if "." in cell]
    found = [i for i in (*pointed, *cells.keys() - pointed) if _THOUSANDS.fullmatch(cells[i])]
    return found if 0 < len(pointed) < len(cells) else []


def _beside_numbers(cells: Cells, numbers: Floats) -> list[int]:
    """Return a few words beside many different numbers."""
    found = [i for i in cells if np.isnan(numbers[i])]
    words = {cells[i] for i in found}
    return found if len(words) <= _RARE and len({*cells.values()}) > len(words) + _MANY else []


def _quantities(cells: Cells, numbers: Floats) -> list[int]:
    """Return numbers with a mark: a unit after it, a currency, or a decimal point; none of many marks."""
    matches = {i: match for i, cell in cells.items() if (match := _AFFIXED.fullmatch(cell[:_LONG]))}
    found = {
        i: (match[1], match[3])
        for i, match in matches.items()
        if (match[3] and not re.search(r"[^\W\d_]", match[1]))
        or "." in match[2]
        or any(unicodedata.category(sign) == "Sc" for sign in match[1])
    }
    return [*found] if len({*found.values()}) <= 2 else []


def _with_digits(cells: Cells, numbers: Floats) -> list[int]:
    """Return cells with digits that are no words with a number; none if each occurs in many rows."""
    found = [i for i, cell in cells.items() if re.search(r"\d", cell) and not _IDENTIFIER.fullmatch(cell[:_LONG])]
    return found if len({cells[i] for i in found}) > len(cells) // 4 else []


# The cells of a form, more than how many different ones, the share of all cells, what is allowed, and the remedy.
_Form = tuple[_Find, int, float, str, str]
_PLAIN = "a number with a decimal point, without marks and units", "Write it as in 1234.5"
_WORDS: Sequence[_Form] = (
    (_beside_numbers, 0, 0, "a number, as in other rows, or empty", "Empty these cells and set missing=median"),
    (_all_of(_DATE), 1, 0.5, "a number or a word, not a date or a time", "Write the days or seconds since a first one"),
    (_all_of(_MONTH), 1, 0.5, "a number or a word, not a date", "Write the days since a first one"),
    (_all_of(_LIST), 1, 0.5, "a number or a word, not a list of values", "Give each value a column of its own"),
    (_all_of(_NUMBER), _FEW, 0.5, *_PLAIN),
    (_quantities, _FEW, 0.5, *_PLAIN),
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
        _infinite_or_words,
        0,
        0,
        "a finite number with a decimal point, as in most rows",
        "Correct the cell, leave out the row",
    ),
    (_all_of(_DAY), _FEW, 1, "a number, not a date", "Write the days since a first one"),
    (
        _thousands,
        _FEW,
        1,
        "a number without a point for thousands",
        "Write it as in 1234.5, or each number with all its decimals",
    ),
)
