"""Training along a history is the run itself; what the page says of unequal data follows the rows."""

from dataclasses import replace

import numpy as np
import pytest

from aoi_fl.lab.experiments.harness.base import Options
from aoi_fl.lab.experiments.harness.federation import play_run
from aoi_fl.lab.experiments.harness.replay import dealt
from aoi_fl.lab.experiments.studies.unequal import POLICIES, Unequal, _loads, law_variance
from aoi_fl.science.load import pairs_met
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.selection import Population, RandomSelector
from aoi_fl.science.simulate import simulate

QUICK = Options(quick=True, rounds=2)


@pytest.mark.parametrize("policy", ["random", "markov-optimal"])
def test_training_along_the_simulated_history_is_the_run(policy, tmp_path):
    keys = {"dataset": "digits", "model": "lr", "policy": policy, "num-clients": 20, "clients-per-round": 6}
    keys |= {"num-server-rounds": 6, "partition": "dirichlet:0.6", "seed": 3, "device": "cpu"}
    run = play_run("x", keys, Options(work=tmp_path))
    there = dealt("digits", "data", "lr", 3, 20, kind="dirichlet", alpha=0.6)
    everyone = Population(np.zeros(20, np.int64), there.sizes, np.ones(20, np.bool_))
    chosen = RandomSelector(6, 3) if policy == "random" else MarkovPolicy.optimal(20, 6, 10)
    history = simulate(chosen, everyone, 6, 3)
    ours = [there.task.evaluate_test(model) for model in there.models(history)][1:]
    assert [row["trained"] for row in run] == np.diff(history.offsets).tolist()
    assert [loss for loss, _ in ours] == pytest.approx([row["loss"] for row in run], rel=1e-5)


def test_weights_that_need_not_sum_to_one_act_on_updates():
    there = dealt("digits", "data", "lr", 1, 10, kind="iid")
    everyone = Population(np.zeros(10, np.int64), there.sizes, np.ones(10, np.bool_))
    history = simulate(RandomSelector(3, 1), everyone, 1, 1, weighting="unbiased")
    history.weights[:] = [0.5, 0.25, 0.0]
    first, after = there.models(history)
    clients = history.selection(1).clients.tolist()
    epochs = there.settings.local_epochs
    for name in first:
        moved = [there.fit(first, there.parts[c], c, 1, epochs=epochs)[0][name] - first[name] for c in clients]
        assert after[name] == pytest.approx(first[name] + 0.5 * moved[0] + 0.25 * moved[1], abs=1e-6)


@pytest.mark.parametrize("policy", list(POLICIES))
def test_every_policy_runs_and_its_loads_match_its_history(policy):
    unit = {"seed": 6, "split": "iid", "policy": policy}
    rows = Unequal().play(unit, replace(QUICK, rounds=3))
    there = dealt("digits", "data", "2nn", 6, 100, kind="iid")
    make, weighting = POLICIES[policy]
    everyone = Population(np.zeros(100, np.int64), there.sizes, np.ones(100, np.bool_))
    history = simulate(make(there.sizes, 6), everyone, 3, 6, weighting=weighting)
    assert [row["met"] for row in rows] == pytest.approx([pairs_met(history, (3,))[3]] * 3)
    assert [row["trained"] for row in rows] == np.diff(history.offsets).tolist()


def _rows(delay, seeds=5):
    """Return curves that climb by a point in ten rounds; those of ``markov size`` as many rounds later."""
    return [
        {"seed": s, "split": "dirichlet 0.3", "policy": p, "round": t, "loss": 1.0, "trained": 15, "met": 0.5}
        | {"waits": 9, "wait_mean": 6.7, "wait_variance": 0.2, "accuracy": 0.90 + 0.001 * (t - s - late)}
        | {"data": 1.0, "variance": 0.2, "largest": 0.01 * s}
        for s in range(6, 6 + seeds)
        for p, late in (("random", 0), ("markov size", delay))
        for t in range(1, 101)
    ]


def test_at_equal_data_a_round_of_more_counts_for_more():
    """From 48 to 77 rounds, in the seed in the middle, 62.5 in the mean; 4 fewer, of 1.5 times as much, are 87.75."""
    rows = [row | {"data": 1.5 if row["policy"] == "markov size" else 1.0} for row in _rows(-4)]
    found = Unequal().conclude(rows, Unequal().settings(Options()))
    line = next(row for row in found.tables[0].rows if row[0] == "markov size")
    assert line[3] == "1.50 [1.50, 1.50]"
    assert float(line[4].split()[0]) == pytest.approx(25.25, abs=0.051)


def test_what_is_claimed_is_judged_by_the_side_it_names():
    settings = Unequal().settings(Options())
    rows = [row | {"policy": {"markov size": "markov equal"}.get(row["policy"], row["policy"])} for row in _rows(3)]
    assert Unequal().conclude(rows, settings).claims[3].verdict == "holds"
    rows += [row | {"policy": "systematic size"} for row in _rows(2) if row["policy"] != "random"]
    assert Unequal().conclude(rows, settings).claims[2].verdict == "refuted"


@pytest.mark.parametrize("name", ["random", "markov size", "systematic rates", "markov rates", "systematic jitter"])
def test_the_variance_is_that_of_a_long_play(name):
    sizes = np.random.default_rng(1).integers(1, 20, 100)
    policy = POLICIES[name][0](sizes, 1)
    everyone = Population(np.zeros(100, np.int64), sizes, np.ones(100, np.bool_))
    assert _loads(simulate(policy, everyone, 4000, 1), sizes)[-1]["wait_variance"] == pytest.approx(
        law_variance(policy, sizes), rel=0.05
    )


@pytest.mark.parametrize(("late", "verdict"), [(-3, "direction reproduced"), (3, "not reproduced")])
def test_globecom_is_judged_with_its_own_weights(late, verdict):
    """Random selection with weights by size is as early as the other: it is no part of the claim."""
    names = {"markov size": "markov equal", "random": "random equal"}
    rows = [row | {"policy": names[row["policy"]], "split": "dirichlet 0.6"} for row in _rows(late)]
    rows += [row | {"policy": "random"} for row in rows if row["policy"] == "markov equal"]
    claim = Unequal().conclude(rows, Unequal().settings(Options())).claims[4]
    assert (claim.verdict, claim.setting) == (verdict, "2NN") and f"{late:.2f} [" in claim.ours
    units = Unequal().units(Options())
    assert {u["split"] for u in units if u["policy"] == "random equal"} == {"dirichlet 0.3", "dirichlet 0.6"}
