"""Verdicts follow the data: made-up rows with a known answer, and the rules that turn intervals into verdicts."""

import itertools

import numpy as np
import pytest
from scipy import stats as scipy_stats

from aoi_fl.lab.experiments.harness.stats import Interval, interval
from aoi_fl.lab.experiments.harness.verdicts import side


def test_a_side_needs_every_interval():
    above, leaning = Interval(2, 1, 5), Interval(1, 2, 5)
    assert [side([above, above], 1), side([above, above], -1)] == ["holds", "refuted"]
    assert side([leaning, leaning], 1) == side([leaning, leaning], -1) == "undecided"
    assert side([Interval(4, 1, 5), leaning], 1) == "undecided" and side([], 1) == "not run"
    assert side([interval([3.0])], 1) == side([interval([3.0])], -1) == "underpowered"  # a single seed
    assert side([Interval(4, 1, 5), Interval(1, 2, 3)], 1) == "underpowered" and side([Interval(4, 1, 3)], 1) == "holds"


@pytest.mark.parametrize("seed", range(20))
def test_beyond_chance_is_a_t_test_at_a_share_of_five_percent(seed):
    values = np.random.default_rng(seed).normal(0.9, 1, 2 + seed % 6)
    for wanted, comparisons in itertools.product((1, -1), (1, 2, 12)):
        test = scipy_stats.ttest_1samp(wanted * values, 0)
        expected = bool(test.statistic > 0 and test.pvalue < 0.05 / comparisons)
        assert interval(values.tolist()).beyond(wanted, comparisons) is expected
    assert not interval([3.0]).beyond(1) and interval([3.0]).bar == 0.0
