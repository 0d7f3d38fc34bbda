"""Σ's claim and the packing bound from made-up rows, and that what is played is what is compared."""

import numpy as np
import pytest

from aoi_fl.lab.experiments.harness.base import Options
from aoi_fl.lab.experiments.oracles.quadratic import POLICIES, RATES, federated_averaging, weight_variance
from aoi_fl.lab.experiments.papers import wics_packing
from aoi_fl.lab.experiments.papers.sigma import Sigma


def _errors(slope):
    rng = np.random.default_rng(1)
    return [
        {"seed": b, "policy": p, "rate": r, "excess": 1 + slope * weight_variance(p) + rng.normal() / 1e4}
        for b in range(1, 9)
        for p in POLICIES
        for r in RATES
    ]


@pytest.mark.parametrize(("slope", "verdict"), [(1.0, "holds"), (-1.0, "refuted"), (0.0, "undecided")])
def test_the_order_of_errors_is_judged_by_the_order_of_sigma(slope, verdict):
    experiment = Sigma()
    (claim,) = experiment.conclude(_errors(slope), experiment.settings(Options())).claims
    assert claim.verdict == verdict


def test_a_batch_is_the_mean_of_its_seeds():
    options = Options(quick=True)
    rows = Sigma().play({"seed": 2}, options)
    found = [
        r["excess"]
        for r in federated_averaging(range(26, 51), (200,))
        if (r["policy"], r["rate"]) == ("random", "proof")
    ]
    assert next(r["excess"] for r in rows if (r["policy"], r["rate"]) == ("random", "proof")) == pytest.approx(
        np.mean(found)
    )


def _played(wics):
    return [
        {"seed": s, "budget": b, "packing bound": 1.0, "lagrangian floor": 0.9, "wics": wics + s / 1e4}
        | {name: 1.2 + s / 1e4 for name in ("abs", "maxpack", "random-budget", "wics, <", "wics, stop at the first")}
        for s in range(1, 6)
        for b in wics_packing.BUDGETS
    ]


@pytest.mark.parametrize(("wics", "verdict"), [(1.02, "holds"), (1.3, "undecided")])
def test_a_bound_that_is_not_met_does_not_refute_nearness(wics, verdict):
    experiment = wics_packing.WicsPacking()
    found = experiment.conclude(_played(wics), experiment.settings(Options()))
    assert found.claims[0].verdict == verdict
    assert len(found.tables[0].rows) == 6


@pytest.mark.parametrize(
    ("wics", "above", "verdict"),
    [(1.1, "9.1 [9.1, 9.1]", "erratum"), (1.2, "0.0 [0.0, 0.0]", "holds"), (1.3, "-7.7 [-7.7, -7.7]", "erratum")],
)
def test_to_stop_at_the_first_costs_what_it_is_above_going_on(wics, above, verdict):
    """Stopping has P2 1.2 whatever the budget; where skipping has another, the two do not select alike."""
    experiment = wics_packing.WicsPacking()
    found = experiment.conclude(_played(wics), experiment.settings(Options()))
    assert f"above that of skipping by {above} % at B=25, " in found.claims[1].ours
    assert found.claims[1].verdict == verdict


def test_no_policy_is_below_the_bound_in_the_long_run(monkeypatch):
    monkeypatch.setattr(wics_packing, "_BATCH", 1)
    (row,) = wics_packing.WicsPacking().play({"budget": 40, "first": 3}, Options())
    assert row["lagrangian floor"] <= row["packing bound"] <= 1.01 * row["wics"] <= 1.02 * row["wics, <"]
