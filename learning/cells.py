"""The forms of cells: missing values, and numbers, dates and lists that would be read as words or as other numbers."""

import re
import unicodedata
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Misread = tuple[int, str, str]  # a cell's index, what is allowed in its place, and the remedy
_Cells = Mapping[int, str]  # cells without blanks around, by index
_RARE = 3  # words beside many numbers
_FEW = 5  # different cells that look like numbers may be words, such as age groups
_MANY = 10  # different cells with digits, each in less than four rows on average, are no words
_LONG = 100  # characters of a cell that are looked at
_EXACT = 2**53  # larger whole numbers are no exact floating-point numbers
MISSING = re.compile(r"|na|n/a|n\.a\.|#n/a|<na>|nan|nat|null|\\n|\?", re.I)
NO_NUMBER = re.compile(r"none|nil|--?|–|—|\.|\.\.\.|…|\*|unknown|missing|#(div/0|value|num|ref|null)!", re.I)
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
# Numbers that pandas reads as others: 20240131, 202401, and 1.500 for 1500 beside 500.
_DAY = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])?")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})?|0")
_PADDED = re.compile(r"[-+]?0\d")
_CODE = re.compile(r"[-+]?\d+(\.0*)?")


def other_numbers(cells: _Cells) -> Misread | None:
    """Return the first of the cells that pandas reads as other numbers: days, and thousands with a point."""
    points = [i for i, cell in cells.items() if "." in cell]
    if len(set(cells.values())) <= _FEW:
        return None
    if not points and all(map(_DAY.fullmatch, cells.values())):
        return next(iter(cells)), "a number, not a date", "Write the days since a first one"
    if 0 < len(points) < len(cells) and all(map(_THOUSANDS.fullmatch, cells.values())):
        remedy = "Write it as in 1234.5, or each number with all its decimals"
        return points[0], "a number without a point for thousands", remedy
    return None


def not_words(cells: _Cells, is_number: NDArray[np.bool_]) -> Misread | None:
    """Return the first of the cells that are dates, times or numbers in another form than 1234.5, or beside numbers.

    ``is_number`` (N,) tells for each index whether the cell is a number.
    """
    others = [i for i in cells if not is_number[i]]
    words = {cells[i] for i in others}
    if len(words) <= _RARE and len({*cells.values()}) > len(words) + _MANY:
        return others[0], "a number, as in other rows, or empty", "Empty these cells and set missing=median"
    for find, least, allowed, remedy in _FORMS:
        found = find(cells)
        if len({cells[i] for i in found}) > least and 2 * len(found) >= len(cells):
            return next((i for i in found if not is_number[i]), found[0]), allowed, remedy
    return None


def are_codes(cells: _Cells, numbers: NDArray[np.float64]) -> bool:
    """Return whether whole numbers (n,) are codes, such as 007 and 7, of which float64 makes one of several."""
    words = {*cells.values()}
    return (
        (bool((np.abs(numbers) >= _EXACT).any()) or any(map(_PADDED.match, words)))
        and len(words) > len(np.unique(numbers))
        and all(map(_CODE.fullmatch, words))
    )


def _all_of(pattern: re.Pattern[str]) -> Callable[[_Cells], list[int]]:
    """Return a function that returns which cells a pattern matches."""
    return lambda cells: [i for i, cell in cells.items() if pattern.fullmatch(cell[:_LONG])]


def _quantities(cells: _Cells) -> list[int]:
    """Return which cells are numbers with a mark: a unit after it, a currency, or a decimal point; none of many."""
    matches = {i: match for i, cell in cells.items() if (match := _AFFIXED.fullmatch(cell[:_LONG]))}
    found = {
        i: (match[1], match[3])
        for i, match in matches.items()
        if (match[3] and not re.search(r"[^\W\d_]", match[1]))
        or "." in match[2]
        or any(unicodedata.category(sign) == "Sc" for sign in match[1])
    }
    return [*found] if len({*found.values()}) <= 2 else []


def _with_digits(cells: _Cells) -> list[int]:
    """Return which cells have digits and are no words with a number; none if each occurs in many rows."""
    found = [i for i, cell in cells.items() if re.search(r"\d", cell) and not _IDENTIFIER.fullmatch(cell[:_LONG])]
    return found if len({cells[i] for i in found}) > len(cells) // 4 else []


_PLAIN = "a number with a decimal point, without marks and units", "Write it as in 1234.5"
# Which cells, more than how many different ones, what is allowed, and the remedy.
_FORMS = (
    (_all_of(_DATE), 1, "a number or a word, not a date or a time", "Write the days or seconds since a first one"),
    (_all_of(_MONTH), 1, "a number or a word, not a date", "Write the days since a first one"),
    (_all_of(_LIST), 1, "a number or a word, not a list of values", "Give each value a column of its own"),
    (_all_of(_NUMBER), _FEW, *_PLAIN),
    (_quantities, _FEW, *_PLAIN),
    (
        _with_digits,
        _MANY,
        "a number or a word that repeats",
        "Write numbers without marks, dates as days since a first one",
    ),
)
