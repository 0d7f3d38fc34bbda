"""What the guides say was measured: each number with its interval is one of a page of results."""

import json
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


@pytest.mark.parametrize("page", ["docs/choosing.md", "docs/privacy.md"])
def test_numbers_are_those_of_the_results(page):
    pages = (ROOT / "docs/results").glob("*.md")
    there = set().union(*(measured(result.read_text(encoding="utf-8")) for result in pages))
    said = measured((ROOT / page).read_text(encoding="utf-8"))
    assert said and not said - there


_LONG = "simulate --rounds 6000 --policy "
_ZIPF = " --weights unbiased --sizes zipf:2.0"
_PLAYED = (  # a command, the number that it prints, and its place in choosing.md
    (f"{_LONG}systematic", "interval_variance", "| `systematic` | 0 | {:.4f} | 0 |"),
    (f"{_LONG}systematic", "window_deviation 100", "| `systematic` | {:.0f} | 0.2222 | 0 |"),
    (f"{_LONG}systematic", "round_deviation", "| `systematic` | 0 | 0.2222 | {:.0f} |"),
    (f"{_LONG}systematic", "pairs_met 6000", "| `systematic` | {:.0%}, and no more ever |"),
    (f"{_LONG}markov-optimal", "round_deviation", "| 0.2222 | {:.1f} |"),
    (f"{_LONG}markov-optimal", "pairs_met 100", "| `markov-optimal` | {:.0%} |"),
    (f"{_LONG}random", "pairs_met 100", "| `random` | {:.0%} |"),
    (f"{_LONG}systematic --phases spread:0.2", "pairs_met 100", "| `systematic`, `phases=spread:0.2` | {:.0%} |"),
    (f"{_LONG}systematic --phases spread:0.2", "interval_variance", "45% | {:.3f} |"),
    (f"{_LONG}systematic --rates size{_ZIPF}", "weight_variance", "rates in proportion to size: Σ {:.4f}"),
    (f"{_LONG}markov-optimal{_ZIPF}", "weight_variance", "on very unequal sizes: Σ {:.3f}"),
    ("policy --max-age 0", "interval_variance", "| 0, memoryless, as random | {:.1f} |"),
    ("policy --max-age 3", "interval_variance", "| 3 | {:.2f} |"),
    ("policy --max-age 5", "interval_variance", "| 5 | {:.2f} |"),
    ("policy --max-age 6", "interval_variance", "| ⌊n/k⌋ = 6, or more | {:.3f} |"),
)


@pytest.mark.slow
@pytest.mark.parametrize("command", dict.fromkeys(command for command, _, _ in _PLAYED))
def test_the_numbers_in_choosing_match_their_commands(command, aoi):
    found = json.loads(aoi(*command.split(), "--json")[1])
    text = " ".join((ROOT / "docs/choosing.md").read_text(encoding="utf-8").split())
    for name, form in [(name, form) for played, name, form in _PLAYED if played == command]:
        field, _, at = name.partition(" ")
        value = found[field][at] if at else found[field]
        assert form.format(value).replace("%", " %") in text, (name, value)
