"""Training along a history is the run itself; what the page says of unequal data follows the rows."""

from dataclasses import replace

import numpy as np
import pytest

from aoi_fl.lab.experiments.harness.base import Options
from aoi_fl.lab.experiments.harness.federation import play_run
from aoi_fl.lab.experiments.harness.replay import dealt
from aoi_fl.lab.experiments.registry import find
from aoi_fl.lab.experiments.studies.unequal import POLICIES, law_variance
from aoi_fl.science.load import measure
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.selection import RandomSelector, everyone
from aoi_fl.science.simulate import simulate

QUICK = Options(quick=True, rounds=2)


@pytest.mark.parametrize(("policy", "weights"), [("random", "size"), ("markov-optimal", "unbiased")])
def test_training_along_the_simulated_history_is_the_run(policy, weights, tmp_path):
    """Unbiased weights do not sum to 1: they act on updates."""
    size = {"num-clients": 20, "clients-per-round": 6, "num-server-rounds": 6, "partition": "dirichlet:0.6"}
    keys = {"dataset": "digits", "model": "lr", "policy": policy, "seed": 3, "weights": weights}
    run = play_run("x", size | keys, Options(work=tmp_path))
    there = dealt("digits", "data", "lr", 3, 20, kind="dirichlet", alpha=0.6)
    chosen = RandomSelector(6, 3) if policy == "random" else MarkovPolicy.optimal(20, 6, 10)
    history = there.history(chosen, 6, weights)
    ours = [there.task.evaluate_test(model) for model in there.models(history)][1:]
    assert [row["trained"] for row in run] == np.diff(history.offsets).tolist()
    assert [loss for loss, _ in ours] == pytest.approx([row["loss"] for row in run], rel=1e-5)


@pytest.mark.parametrize("policy", list(POLICIES))
def test_every_policy_runs_and_counts_who_trains(policy):
    rows = find("unequal").play({"seed": 6, "split": "iid", "policy": policy}, replace(QUICK, rounds=3))
    assert [row["round"] for row in rows] == [1, 2, 3]
    assert all(row["trained"] == pytest.approx(15 * row["data"], rel=0.01) for row in rows)  # sizes are all but equal


@pytest.mark.parametrize("name", ["random", "proportional", "systematic rates"])
def test_the_variance_is_that_of_a_long_play(name):
    sizes = np.random.default_rng(1).integers(1, 20, 100)
    policy = POLICIES[name][0](sizes, 1)
    people = everyone(sizes)
    played = measure(simulate(policy, people, 4000, 1)).interval_variance
    assert played == pytest.approx(law_variance(policy, sizes), rel=0.05)
