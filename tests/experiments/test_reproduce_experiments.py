"""The skew by hand, runs in pairs of equal seed, and the papers' start."""

import numpy as np
import pytest

from aoi_fl.lab.experiments.harness.base import Options
from aoi_fl.lab.experiments.harness.replay import dealt
from aoi_fl.lab.experiments.oracles.skew import optima
from aoi_fl.lab.experiments.papers.speed import MEMORYLESS
from aoi_fl.lab.experiments.registry import find
from aoi_fl.lab.experiments.studies.start_learning import history_of
from aoi_fl.learning import data, partition
from aoi_fl.science.selection import Population, RandomSelector
from aoi_fl.science.simulate import simulate
from aoi_fl.server.ledger import read, read_run


@pytest.mark.slow
def test_the_skew_is_the_one_recomputed_by_hand(tmp_path):
    options = Options(quick=True, seeds=1, rounds=1, model="lr")
    chosen = {"split": "dirichlet-0.3", "policy": "random"}
    (row,) = (
        row
        for unit in find("skew").units(options)
        if chosen.items() <= unit.items()
        for row in find("skew").play(unit, options)
    )
    digits = data.load("digits", "data")
    parts = partition.make(digits.train_y, 100, kind="dirichlet", alpha=0.3, seed=1)
    minima, _ = optima(dealt("digits", "data", "lr", 1, 100, kind="dirichlet", alpha=0.3), 100, 3)
    from aoi_fl.learning.task import Task

    weight, bias = Task("digits", "data", "lr", "auto", 1).initial_arrays().values()
    sizes = np.array([len(part) for part in parts])
    excess = []
    for part, least in zip(parts, minima, strict=True):
        outputs = digits.train_x[part].reshape(len(part), -1).astype(np.float64) @ weight.T + bias
        log_shares = outputs - np.log(np.exp(outputs).sum(axis=1, keepdims=True))
        excess.append(-log_shares[np.arange(len(part)), digits.train_y[part]].mean() - least)
    everyone = Population(np.zeros(100, np.int64), sizes, np.ones(100, np.bool_))
    selected = simulate(RandomSelector(15, 1), everyone, 1, 1).selection(1).clients
    drawn = sum(sizes[i] / sizes[selected].sum() * excess[i] for i in selected)
    expected = sum(sizes[i] / sizes.sum() * excess[i] for i in range(100))
    assert row["along"] == pytest.approx(drawn / expected, rel=1e-5)
    assert row["along"] != pytest.approx(1, abs=1e-3)


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
    first = [history.selection(t).clients[0] for t in range(1, 6)]
    assert len(set(first)) > 1 and first != [history_of("zero", 8, 2).selection(t).clients[0] for t in range(1, 6)]
    assert np.diff(history_of("stationary", 8, 1).offsets).min() >= 3
