"""The words of verdicts."""

import pytest

from aoi_fl.report.judging import Interval, judged


@pytest.mark.parametrize(
    ("mean", "half", "count", "word"),
    [
        (2.0, 1.0, 3, "better"),
        (-2.0, 1.0, 3, "worse"),
        (0.2, 0.3, 3, "equal"),
        (0.2, 0.31, 3, "not distinguishable"),
        (1.0, 1.0, 3, "not distinguishable"),
        (2.0, 1.0, 2, "no conclusion"),
    ],
)
def test_the_word_on_a_difference(mean, half, count, word):
    assert judged(Interval(mean, half, count), 0.5, 1) == word
