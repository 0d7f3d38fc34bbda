"""The papers' start in learning: who takes part, and what is compared."""

import numpy as np
import pytest

from aoi_fl.experiments.harness.base import Options
from aoi_fl.experiments.studies.start_learning import StartLearning, history_of


def test_from_age_0_the_first_rounds_have_one_forced_client_each():
    """With n/k = 6.67 nobody of age below 5 is willing: five forced rounds, then a third of the others at once."""
    history = history_of("zero", 8, 1)
    counts = np.diff(history.offsets)
    assert counts[:5].tolist() == [1] * 5
    assert 20 <= counts[5] <= 45 and counts[5] + counts[6] >= 90
    first = [history.selection(t).clients[0] for t in range(1, 6)]
    assert len(set(first)) > 1 and first != [history_of("zero", 8, 2).selection(t).clients[0] for t in range(1, 6)]
    assert np.diff(history_of("stationary", 8, 1).offsets).min() >= 3


@pytest.mark.parametrize(("late", "verdict"), [(-3, "holds"), (3, "refuted")])
def test_the_verdict_follows_the_shift(late, verdict):
    rows = [
        {"seed": s, "start": start, "round": t, "accuracy": 0.87 + 0.004 * (t - (late + s % 2) * (start == "zero"))}
        for s in range(1, 7)
        for start in ("random", "stationary", "zero")
        for t in range(1, 41)
    ]
    experiment = StartLearning()
    assert experiment.conclude(rows, experiment.settings(Options())).claims[0].verdict == verdict
    assert experiment.conclude(rows[:40], experiment.settings(Options())).claims[0].verdict == "not run"
    (claim,) = experiment.conclude(rows, experiment.settings(Options(quick=True))).claims
    assert (claim.verdict, claim.ours) == ("not run", "played on digits")
