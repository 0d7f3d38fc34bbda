"""The remarks' enumerations against the science, sampling and simulation; verdicts from made-up rows."""

import numpy as np
import pytest

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.oracles import lemmas
from aoi_fl.science import draws
from aoi_fl.science.budget import choose
from aoi_fl.science.whittle import whittle_index


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
