"""The skew by hand, runs in pairs of equal seed, and the papers' start."""

import numpy as np
import pytest

from aoi_fl.lab.experiments.harness.base import Options
from aoi_fl.lab.experiments.harness.replay import dealt
from aoi_fl.lab.experiments.oracles.skew import optima
from aoi_fl.lab.experiments.papers.speed import MEMORYLESS
from aoi_fl.lab.experiments.registry import find
from aoi_fl.lab.experiments.studies.start_learning import history_of
from aoi_fl.science.selection import RandomSelector
from aoi_fl.server.ledger import read, read_run


@pytest.mark.slow
def test_the_skew_is_the_one_recomputed_by_hand():
    options = Options(quick=True, rounds=1, model="lr")
    (row,) = find("skew").play({"seed": 1, "split": "dirichlet-0.3", "policy": "random"}, options)
    there = dealt("digits", "data", "lr", 1, 100, kind="dirichlet", alpha=0.3)
    first, minima = there.initial_arrays(), optima(there, 100, 3)[0]
    excess = np.array([there.task.evaluate(first, part)[0] for part in there.parts]) - minima
    drawn = there.history(RandomSelector(15, 1), 1).selection(1).clients
    by_hand = np.average(excess[drawn], weights=there.sizes[drawn]) / np.average(excess, weights=there.sizes)
    assert row["along"] == pytest.approx(by_hand, rel=1e-5) != pytest.approx(1, abs=1e-3)


# Learning


def first_round(policy, seed, folder):
    """Return the losses of round 1 by client, and the partition, of a unit of ``mnist-iid``."""
    options = Options(quick=True, rounds=1, model="lr", work=folder, data_dir=folder)
    find("mnist-iid").play({"seed": seed, "partition": "iid", "policy": policy}, options)
    (index,) = folder.glob("mnist-iid/*/*/partition.npy")
    parts = read(index.with_name("ledger.sqlite"), "participations")
    return {part["client"]: part["loss"] for part in parts if part["outcome"] == "trained"}, index.read_bytes()


def test_policies_are_compared_in_pairs_of_equal_seed(tmp_path):
    """A client's loss shows its first model, its examples and the order of its batches."""
    base, parts = first_round("random", 1, tmp_path / "base")
    common = 0
    for policy in ("proportional", "oldest-age", "markov-optimal", MEMORYLESS):
        losses, theirs = first_round(policy, 1, tmp_path / policy)
        both = base.keys() & losses.keys()
        assert theirs == parts and all(losses[client] == base[client] for client in both)
        common += len(both)
    assert common >= 3
    (ledger,) = (tmp_path / MEMORYLESS).glob("mnist-iid/*/*/ledger.sqlite")
    assert read_run(ledger)["policy"]["probabilities"] == [0.15]
    other, their_parts = first_round("random", 2, tmp_path / "other")
    assert their_parts != parts and not set(other.values()) & set(base.values())


def test_from_age_0_the_first_rounds_have_one_forced_client_each():
    """With n/k = 6.67 nobody of age below 5 is willing: five forced rounds, then a third of the others at once."""
    history = history_of("zero", 8, 1)
    counts = np.diff(history.offsets)
    assert counts[:5].tolist() == [1] * 5
    assert 20 <= counts[5] <= 45 and counts[5] + counts[6] >= 90
    assert len({*history.members[:5].tolist()}) > 1
    assert np.diff(history_of("stationary", 8, 1).offsets).min() >= 3
