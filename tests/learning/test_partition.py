"""Partitions: every image dealt once, the wanted laws, and the index file."""

import numpy as np
import pytest

from aoi_fl.learning import partition
from tests.refusals import refused

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 150))


@pytest.mark.parametrize(
    ("kind", "options"),
    [("iid", {}), ("iid", {"sizes": "zipf:2.0"}), ("iid", {"sizes": "uniform:1:20"}), ("dirichlet", {"alpha": 0.6})],
)
def test_deals_every_image_exactly_once_and_by_the_seed(kind, options):
    parts, again, other = (partition.make(LABELS, 100, kind=kind, seed=s, **options) for s in (1, 1, 2))
    assert len(parts) == 100
    assert all(part.dtype == np.int64 and len(part) for part in parts)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(LABELS)))
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(parts, other, strict=True))
    assert options or {len(part) for part in parts} == {15}


def shares(parts):
    return np.array([np.bincount(LABELS[part], minlength=10) / len(part) for part in parts])


def test_large_alpha_is_nearly_iid_and_small_alpha_is_not():
    even = partition.make(LABELS, 10, kind="dirichlet", alpha=1e6, seed=1)
    np.testing.assert_allclose(shares(even), 0.1, atol=0.01)
    assert {len(part) for part in even} <= set(range(140, 161))
    # With α = 0.1 on 10 clients a class's largest share is 0.66 on average; by chance alone it would be near 0.1.
    skewed = partition.make(LABELS, 10, kind="dirichlet", alpha=0.1, seed=1)
    by_class = np.array([np.bincount(LABELS[part], minlength=10) for part in skewed]) / 150
    assert by_class.max(axis=0).mean() > 0.4


TARGETS = np.linspace(0, 1, 60, dtype=np.float32)


@pytest.mark.parametrize(
    ("labels", "options", "key"),
    [
        (LABELS, {"clients": 1501}, "num-clients"),
        (LABELS, {"clients": 0}, "num-clients"),
        (LABELS, {"kind": "dirichlet", "sizes": "zipf:2.0"}, "sizes"),
        (LABELS, {"sizes": "sizes"}, "sizes"),
        (LABELS, {"clients": 100, "kind": "dirichlet", "alpha": 0.01}, "alpha"),  # some client has no data
        (TARGETS, {"kind": "dirichlet"}, "partition"),
    ],
)
def test_a_partition_that_cannot_be_made_is_refused(labels, options, key):
    with refused(key):
        partition.make(labels, **{"clients": 10, "seed": 1} | options)
    assert sum(map(len, partition.make(TARGETS, 4, seed=1))) == 60


def test_an_index_file_has_each_clients_images_or_is_refused(tmp_path):
    path = tmp_path / "new" / "partition.npy"
    with refused("partition"):
        partition.read_index(path, 0)
    parts = [np.array([3, 1]), np.array([0]), np.array([2, 4])]
    partition.write_index(path, parts)
    assert [partition.read_index(path, client).tolist() for client in range(3)] == [part.tolist() for part in parts]
    for client in (-1, 3):
        with refused("client"):
            partition.read_index(path, client)
    whole = path.read_bytes()
    for damaged in (b"", b"junk", whole[:-8]):
        path.write_bytes(damaged)
        with refused("partition"):
            partition.read_index(path, 0)
    np.save(path, np.array([2, 0, 2, 3, 3, 1]))  # one index short of what the head says
    with refused("partition"):
        partition.read_index(path, 0)
    with refused("partition"):
        partition.write_index(path / "below-a-file", [np.array([1])])
