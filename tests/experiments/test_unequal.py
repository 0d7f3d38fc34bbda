"""Training along a history is the run itself; what the page says of unequal data follows the rows."""

from dataclasses import replace

import numpy as np
import pytest

from aoi_fl.lab.experiments.harness.base import Options
from aoi_fl.lab.experiments.harness.federation import play_run
from aoi_fl.lab.experiments.harness.replay import dealt
from aoi_fl.lab.experiments.harness.stats import interval
from aoi_fl.lab.experiments.harness.times import levels, reached
from aoi_fl.lab.experiments.studies.unequal import _SPLITS, POLICIES, Unequal, _loads, law_variance
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


def test_the_page_says_who_is_later_and_by_how_much():
    experiment = Unequal()
    found = experiment.conclude(_rows(-4), experiment.settings(Options()))
    (table,) = found.tables
    line = next(row for row in table.rows if row[0] == "markov size")
    assert line[1:3] == ["5", "-4.0 [-4.0, -4.0]"]
    short = experiment.conclude([r for r in _rows(-4) if r["round"] <= 60], experiment.settings(Options()))
    assert next(row for row in short.tables[0].rows if row[0] == "markov size")[2] == "not reached by all seeds"
    base = np.array([[r["accuracy"] for r in _rows(0) if (r["seed"], r["policy"]) == (6, "random")]])
    assert interval(reached(base, levels(0.97)[0]).tolist()).mean == 46


def test_at_equal_data_a_round_of_more_counts_for_more():
    """From 48 to 77 rounds, in the seed in the middle, 62.5 in the mean; 4 fewer, of 1.5 times as much, are 87.75."""
    rows = [row | {"data": 1.5 if row["policy"] == "markov size" else 1.0} for row in _rows(-4)]
    found = Unequal().conclude(rows, Unequal().settings(Options()))
    line = next(row for row in found.tables[0].rows if row[0] == "markov size")
    assert line[3] == "1.50 [1.50, 1.50]"
    assert float(line[4].split()[0]) == pytest.approx(25.25, abs=0.051)


def test_the_headline_is_of_what_is_claimed_when_all_is_there():
    settings = Unequal().settings(Options())

    def said(seeds):
        ours = _rows(-4, seeds)
        of = [row for row in ours if row["policy"] == "random"]
        for policy, data in (("systematic rates", 1.25), ("systematic size", 1.0), ("markov equal", 1.0)):
            of += [row | {"policy": policy, "data": data} for row in ours if row["policy"] != "random"]
        return Unequal().conclude([row | {"split": s} for s in _SPLITS for row in of], settings)

    assert (
        "under dirichlet 0.3 / zipf, 10 seeds: " in said(10).headline
        and "weights by size, -4.0 [-4.0, -4.0] / -4.0 [-4.0, -4.0]; systematic" in said(10).headline
    )
    assert said(10).headline.endswith(" on 1.2 times the data.") and not said(9).headline
    few, less, even, papers, theirs = said(10).claims
    assert theirs.verdict == "not run"  # random selection with equal weights is not among the rows
    assert (few.verdict, less.verdict, even.verdict, papers.verdict) == ("holds", "refuted", "holds", "refuted")
    assert less.ours.count("(") == 3  # where data are unequal


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


def test_the_policies_near_the_goal_are_listed():
    """As even as another to two digits, it is the earlier of the two; with less variance, but once later, it is not."""
    settings = Unequal().settings(Options())

    def played(policy, variance, delay, at_zipf):
        own = {"policy": policy, "variance": variance}
        return [
            row | own | {"split": split}
            for split in _SPLITS
            for row in _rows(at_zipf if split == "zipf" else delay)
            if row["policy"] == "markov size"
        ]

    def said():
        return Unequal().conclude(rows, settings).paragraph

    rows = [row | {"split": split} for split in _SPLITS for row in _rows(0) if row["policy"] == "random"]
    rows += played("markov rates", 16.0, -8, -8) + played("markov equal", 0.1, -9, 1)
    assert "under every unequal one: markov rates, at Var[X] up to 16.00." in said()
    assert "Nowhere more" not in said()
    for row in played("markov unbiased", 0.3, -1, 0):
        scatter = 0.002 * (row["seed"] - 8) if row["split"] == "zipf" else 0
        rows.append(row | {"accuracy": row["accuracy"] + scatter})
    assert "None does all of it." in said() and ": markov rates, at" in said()
    assert "Var[X], 0.30: markov unbiased; it is not earlier beyond chance under zipf, " in said()
    rows += played("markov size", 0.221, -2, -1) + played("systematic size", 0.222, -3, -2)
    assert "under every unequal one: systematic size, at Var[X] up to 0.22." in said() and "None" not in said()
    rows = [row | ({"data": 1.5} if row["policy"] == "systematic size" else {}) for row in rows]
    assert "systematic size, at Var[X] up to 0.22 and on more data (dirichlet 0.3, dirichlet 0.6, zipf" in said()
    rows = [row for row in rows if row["split"] != "iid"]
    assert "Wanted" not in said()  # a partition is missing


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
