"""The estimate of how fast data go bad, on streams of reports whose truth is known."""

import numpy as np
import pytest

from aoi_fl.science.estimate import MEMORY, SlopeEstimate

N = 20


def test_the_moments_equal_a_weighted_regression():
    rng = np.random.default_rng(2)
    ages, losses = rng.integers(0, 9, 60), rng.random(60)
    estimate = SlopeEstimate.of(1)
    levels = []
    for age, loss in zip(ages, losses, strict=True):
        estimate = estimate.after(np.array([0]), np.array([age]), np.array([loss]))
        levels.append(estimate.level)
    left = losses - levels
    weights = (1 - 1 / MEMORY) ** np.arange(59, -1, -1)
    means = np.average([ages, left], axis=1, weights=weights)
    squares = weights.sum() * np.cov(ages, left, ddof=0, aweights=weights)
    expected = [weights.sum(), *means, squares[0, 0], squares[0, 1], squares[1, 1]]
    assert estimate.moments[:, 0] == pytest.approx(expected)


def test_it_starts_from_the_sizes_and_stays_there_without_news():
    sizes = np.array([200, 300, 700])  # 400 in the mean
    estimate = SlopeEstimate.of(3)
    assert estimate.sensitivities(sizes).tolist() == [0.5, 0.75, 1.75]
    for loss in (0.9, 0.7, 0.5):  # always refreshed: no ages to learn from
        estimate = estimate.after(np.arange(3), np.zeros(3, np.int64), np.full(3, loss))
    assert estimate.sensitivities(sizes).tolist() == [0.5, 0.75, 1.75]


def test_newcomers_count_as_the_mean_of_finite_values():
    rng, estimate = np.random.default_rng(4), SlopeEstimate.of(N)
    for _ in range(150):
        ages = rng.integers(0, 9, N)
        estimate = estimate.after(np.arange(N), ages, 0.02 * ages + rng.normal(0, 0.02, N))
    more = estimate.joined(2)
    assert more.slopes[:N] == pytest.approx(estimate.slopes)
    mean = estimate.moments[4].sum() / estimate.moments[3].sum()
    assert more.slopes[N:] == pytest.approx(mean)
    broken = estimate.after(np.array([3, 5]), np.array([2, 2]), np.array([np.nan, np.inf]))
    assert np.array_equal(broken.moments, estimate.moments)


@pytest.mark.parametrize("loss", [1e-200, -1e30, 1e30])
def test_whatever_loss_is_told_there_is_an_estimate(loss):
    estimate = SlopeEstimate.of(3)
    for age in range(30):
        ages, losses = np.array([age % 3, 1, 1]), np.array([loss * (age % 3), 0.0, 0.0])
        estimate = estimate.after(np.arange(3), ages, losses)
    found = estimate.sensitivities(np.array([5, 5, 5]))
    assert (found > 0).all() and np.isfinite(found).all()
