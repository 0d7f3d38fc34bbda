"""Sizes of data sets against their laws."""

import numpy as np
import pytest

from aoi_fl.science.sizes import make_sizes


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
