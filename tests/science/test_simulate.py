import numpy as np
import pytest

from aoi_fl.science.load import measure
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.selection import Population
from aoi_fl.science.simulate import simulate
from aoi_fl.science.sizes import make_sizes

N, K, M = 100, 15, 10


def population(n=N, sizes=None, available=None):
    return Population(
        ages=np.zeros(n, dtype=np.int64),
        sizes=np.ones(n, dtype=np.int64) if sizes is None else sizes,
        available=np.ones(n, dtype=bool) if available is None else available,
    )


def variance_error(pmf, count):
    """Return the standard error of the variance of ``count`` independent draws: √((μ₄ − σ⁴)/count)."""
    x = np.arange(1, len(pmf) + 1)
    centred = x - pmf @ x
    return np.sqrt((pmf @ centred**4 - (pmf @ centred**2) ** 2) / count)


@pytest.mark.parametrize("make", [MarkovPolicy.optimal, MarkovPolicy.increasing, MarkovPolicy.uniform])
def test_markov_intervals_have_the_mean_and_variance_of_theory(make):
    policy = make(N, K, M)
    history = simulate(policy, population(), 1000, seed=7)
    m = measure(history)
    count = sum(m.interval_counts.values())
    if policy.kind != "uniform":  # whose mean has a standard error of 0.75 %
        assert m.interval_mean == pytest.approx(N / K, rel=0.01)
    assert m.interval_mean == pytest.approx(N / K, abs=4 * np.sqrt(policy.interval_variance / count))
    error = variance_error(policy.interval_pmf(), count)
    assert abs(m.interval_variance - policy.interval_variance) < 4 * error
    # |S| ~ Binomial(n, k/n) from the first round on; Σ is that of Theorem 5.
    assert np.diff(history.offsets).mean() == pytest.approx(K, abs=4 * np.sqrt(K * (1 - K / N) / 1000))
    # Neighbouring rounds are correlated under the optimal policy: as if only a tenth of them counted.
    sums = 1 / np.diff(history.offsets)
    assert m.weight_dispersion == pytest.approx(policy.weight_variance, abs=4 * sums.std() / np.sqrt(100))
    # Renewal theory: the mean age is (E[X²]/E[X] − 1)/2.
    square = policy.interval_variance + policy.interval_mean**2
    assert m.mean_age == pytest.approx((square / policy.interval_mean - 1) / 2, rel=0.03)


def test_sizes_follow_their_law():
    assert make_sizes("equal", 4, 1).tolist() == [600] * 4
    even = make_sizes("uniform:3:7", 20_000, 1)
    assert (even.min(), even.max()) == (3, 7)
    assert even.mean() == pytest.approx(5, abs=4 * np.sqrt(2 / 20_000))
    zipf = make_sizes("zipf:2.0", 20_000, 1)
    share = 6 / np.pi**2  # P(d = 1) = 1/ζ(2)
    assert zipf.min() == 1
    assert np.mean(zipf == 1) == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 20_000))
    assert np.array_equal(zipf, make_sizes("zipf:2.0", 20_000, 1))
    assert make_sizes("zipf:1.001", 1000, 1).sum() > 0  # the heaviest tails do not overflow


@pytest.mark.parametrize("spec", ["equal", "zipf:2.0", "zipf:1.1", "uniform:1:50"])
@pytest.mark.parametrize("total", [100, 101, 1797, 60_000])
def test_scaled_sizes_add_up_and_keep_their_order(spec, total):
    raw, sizes = make_sizes(spec, 100, 4), make_sizes(spec, 100, 4, total)
    assert sizes.dtype == np.int64
    assert (sizes.sum(), sizes.min() >= 1) == (total, True)
    assert np.all(np.diff(sizes[np.argsort(raw, kind="stable")]) >= -1)  # a remainder moves at most one example
    quota = (total - 100) * (raw / raw.sum())
    up = sizes - 1 > np.floor(quota)
    assert np.array_equal(sizes - 1, np.floor(quota) + up)
    assert np.min((quota % 1)[up], initial=1) >= np.max((quota % 1)[~up], initial=0)  # the largest remainders round up
