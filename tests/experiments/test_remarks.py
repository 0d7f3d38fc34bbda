"""The remarks' enumerations against the science, sampling and simulation; verdicts from made-up rows."""

import numpy as np
import pytest

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.base import Options
from aoi_fl.lab.experiments.oracles import lemmas
from aoi_fl.lab.experiments.oracles.weight_variance import proportional_weight_variance, random_weight_variance
from aoi_fl.lab.experiments.papers import remarks
from aoi_fl.lab.experiments.registry import find
from aoi_fl.science import draws
from aoi_fl.science.budget import choose
from aoi_fl.science.whittle import whittle_index

_LOSSES = ("absolute loss is smooth", "squared loss has bounded gradients")


@pytest.mark.parametrize("sizes", [[3, 3, 3, 3], [1, 2, 5, 9, 4]])
def test_the_enumerated_rounds_have_the_theorems_variance(sizes):
    for rounds, formula in (
        (lemmas.random_rounds, random_weight_variance),
        (lemmas.proportional_rounds, proportional_weight_variance),
    ):
        played = list(rounds(np.array(sizes, float), 2))
        assert sum(chance for chance, _ in played) == pytest.approx(1)
        weights = np.array([w for _, w in played])
        mean = np.average(weights, axis=0, weights=[c for c, _ in played])
        square = np.average((weights**2).sum(axis=1), weights=[c for c, _ in played])
        assert square - mean @ mean == pytest.approx(formula(np.array(sizes, np.int64), 2))


@pytest.mark.parametrize("seed", range(3))
def test_algorithm_1_is_the_strict_choice(seed):
    rng = np.random.default_rng(seed)
    ages, payments, sensitivities = rng.integers(0, 9, 20), rng.uniform(5, 15, 20), rng.random(20)
    chosen, compared = lemmas.algorithm1(ages, payments, sensitivities, 40.0)
    expected = choose(whittle_index(ages, payments, sensitivities, 40.0), payments, 40.0, strict=True)
    assert sorted(chosen) == expected.tolist() and compared > 20


@pytest.mark.parametrize("start", ["zero", "stationary"])
def test_the_chance_of_being_heard_is_that_of_simulated_clients(start):
    exact = next(r for r in lemmas.heard() if r["what"] == f"heard, {start}" and r["leaving"] == 0.1)
    table = setting.markov("markov-increasing")
    clients, probabilities = 20_000, np.asarray(table.probabilities)
    ages = np.zeros(clients, np.int64)
    if start == "stationary":
        ages = table.first_age(1, draws.uniforms(1, 1, "first-age", clients))
    here, heard = np.ones(clients, bool), np.zeros(clients, bool)
    for t in range(1, 200):
        took = here & (draws.uniforms(1, t, "take", clients) < probabilities[np.minimum(ages, len(probabilities) - 1)])
        heard |= took
        ages = np.where(took, 0, ages + 1)
        here &= draws.uniforms(1, t, "leave", clients) >= 0.1
    error = np.sqrt(exact["left"] * (1 - exact["left"]) / clients)
    assert abs(heard.mean() - exact["left"]) < 4 * error


def test_two_losses_break_their_assumptions():
    rows = {name: [r for r in lemmas.smoothness_of_losses() if r["what"] == name] for name in _LOSSES}
    corner, steep = (rows[name] for name in _LOSSES)
    for row, j in zip(corner, range(6), strict=True):  # F(h) − F(−h) = 0, and −2h + 2βh² with β = 1/(2h) is −h
        assert (row["left"], row["right"]) == (0.0, pytest.approx(-(10.0**-j)))
    assert [row["left"] > row["right"] for row in steep] == [False] + 5 * [True]


def test_one_counterexample_refutes():
    found = find("remarks")
    rows = [row for unit in found.units(Options(quick=True)) for row in found.play(unit, Options(quick=True))]
    verdict = {claim.claim: claim.verdict for claim in found.conclude(rows, {}).claims}
    assert verdict["Lemma 1"] == verdict["Lemma 4"] == verdict["Algorithm 1 takes O(N log N)"] == "holds"
    assert verdict["Lemma 2"] == "erratum" and verdict["The loss of LR is strongly convex"] == "refuted"
    assert (
        verdict["The mean absolute loss is smooth"] == verdict["Assumption 4 holds for mean squared loss"] == "refuted"
    )
    assert verdict["E[B_noise] = 0, as the stochastic gradients are unbiased"] == "refuted"
    assert verdict["Algorithm 1 as printed spends a budget that constraint (8) allows it to spend"] == "erratum"
    worse = [
        {**row, "left": 2 * row["right"]} if row["what"] == "lemma 4" and row["seed"] == 1 else row for row in rows
    ]
    assert {c.claim: c.verdict for c in found.conclude(worse, {}).claims}["Lemma 4"] == "refuted"
    assert {c.verdict for c in remarks.Remarks().conclude([], {}).claims} == {"not run"}
