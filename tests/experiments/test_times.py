"""Times to a level, shifts, censored tests and ratios, each against a computation of another kind."""

import numpy as np
import pytest
from scipy import optimize
from scipy import stats as scipy_stats

from aoi_fl.lab.experiments.harness.stats import interval, ratio
from aoi_fl.lab.experiments.harness.times import earlier, shift, shifts, sooner

# Levels and shifts


def test_a_policy_that_is_the_other_one_delayed_is_as_late_as_the_delay():
    base = 0.9 + np.cumsum(np.random.default_rng(1).uniform(0, 0.005, (4, 60)), axis=1)
    delays = np.array([0, 1, 2, 7])
    delayed = np.array([[0.5] * delay + [*curve[: 60 - delay]] for delay, curve in zip(delays, base, strict=True)])
    assert shifts(delayed, base, 0.97).tolist() == delays.tolist()
    assert shift(delayed, base, 0.97).mean == 2.5


def test_a_level_that_is_not_reached_leaves_no_shift():
    base, short = np.full((2, 5), 0.99), np.array([[0.99] * 5, [0.95] * 5])
    assert shift(short, base, 0.97) is None and np.isnan(shifts(short, base, 0.97)[1])
    assert sooner(short, base, 0.97) == sooner(base, base, 0.97) == "underpowered"
    never = np.full((2, 5), 0.5)
    assert sooner(never, never, 0.97) == "not run" == sooner(never[:0], never[:0], 0.97)


# The test of censored times


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("censored", [False, True])
def test_the_censored_test_permutes_gehans_scores(seed, censored):
    """Gehan's score counts, pair by pair of all runs, which certainly ended later; scipy permutes within the pairs."""
    rng = np.random.default_rng(seed)
    ours, base = rng.integers(10, 30, (2, 7)).astype(float)
    if censored:
        ours[ours > 22], base[base > 22] = np.inf, np.inf
    pool = np.concatenate([ours, base])
    scores = np.array([sum(float(t > u) - float(t < u) for u in pool) for t in pool])

    def statistic(a, b, axis):
        return (a - b).sum(axis=axis)

    expected = scipy_stats.permutation_test(
        (scores[:7], scores[7:]), statistic, permutation_type="samples", n_resamples=np.inf, vectorized=True
    )
    found = earlier(ours, base)
    assert found.chance == pytest.approx(expected.pvalue)
    assert found.lead == pytest.approx((scores[:7] - scores[7:]).mean() / 2)


def test_who_finishes_is_earlier_than_who_never_does():
    done, never = np.arange(10.0, 16.0), np.full(6, np.inf)
    assert earlier(done, never).verdict == "holds" and earlier(never, done).verdict == "refuted"
    assert earlier(done, never).chance == pytest.approx(2 / 2**6)
    assert earlier(done[:5], never[:5]).verdict == "underpowered"  # of five pairs, no outcome is beyond chance
    assert earlier(never, never).chance == 1.0


# Ratios


@pytest.mark.parametrize("seed", range(6))
def test_fiellers_interval_inverts_the_t_test(seed):
    rng = np.random.default_rng(seed)
    below = rng.uniform(30, 60, 8)
    above = 1.2 * below + rng.normal(0, 4, 8)
    found = ratio(above, below)
    assert found.value == pytest.approx(above.sum() / below.sum())

    def beyond(r):
        return scipy_stats.ttest_1samp(above - r * below, 0).pvalue - 0.05

    assert found.low == pytest.approx(optimize.brentq(beyond, 0.5, found.value), abs=1e-9)
    assert found.high == pytest.approx(optimize.brentq(beyond, found.value, 2.5), abs=1e-9)


def test_a_ratio_over_what_may_be_zero_is_unbounded():
    found = ratio([1.0, 2.0, 3.0], [-1.0, 1.0, 0.5])
    assert found.high == np.inf and "(unbounded)" in found.show() and "(unbounded)" in found.percent()
    assert ratio([3.0], [2.0]).show(1) == "1.5 (unbounded)"
    assert ratio([12.4, 12.4], [10.0, 10.0]).percent() == "+24.0 [24.0, 24.0] %"
    assert interval([1.0, 1.0]).show(1) == "1.0 [1.0, 1.0]"
