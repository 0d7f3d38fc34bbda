"""What the guides say was measured: each number with its interval is one of a page of results."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_NUMBER = r"-?\d+(?:\.\d+)?"
_MEASURED = re.compile(rf"({_NUMBER})(?: %| points| rounds)?\s+\[({_NUMBER}), ({_NUMBER})\]")


def measured(text):
    """Return the means with their intervals, as they are written; sooner and later, below and above are alike."""
    found = (match.groups() for match in _MEASURED.finditer(text.replace("−", "-").replace("+", "")))
    return {min((mean, low, high), (_turned(mean), _turned(high), _turned(low))) for mean, low, high in found}


def _turned(number):
    return number[1:] if number.startswith("-") else f"-{number}"


def test_a_number_is_the_same_from_either_side():
    one, other = "2.8 [2.2, 3.4] rounds earlier", "-2.8\n[-3.4, -2.2] later"
    assert measured(one) == measured(other) == measured("+2.8 % [2.2, 3.4]") != measured("2.8 [-2.2, 3.4]")


@pytest.mark.parametrize("page", ["README.md", "docs/choosing.md"])
def test_numbers_are_those_of_the_results(page):
    pages = (ROOT / "docs/results").glob("*.md")
    there = set().union(*(measured(result.read_text(encoding="utf-8")) for result in pages))
    said = measured((ROOT / page).read_text(encoding="utf-8"))
    assert said and not said - there
