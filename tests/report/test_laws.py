"""The laws that a report draws beside what it has measured."""

import numpy as np
import pytest

from aoi_fl.report.theory import law
from aoi_fl.science.interval_law import MixedLaw
from aoi_fl.science.load import measure
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.selection import everyone
from aoi_fl.science.simulate import simulate
from aoi_fl.science.systematic import SystematicPolicy
from tests.report.recorded import MARKOV

RATES = [0.5, 0.25, 0.25, 1.0, 0.4, 0.6]


@pytest.mark.parametrize("policy", [MARKOV, MarkovPolicy.optimal(20, 3, 10), MarkovPolicy.optimal(12, 3, 2)])
def test_window_variance_equals_the_exact_law_of_the_count(policy):
    windows = [1, 2, 5, 9]
    m, p = policy.max_age, policy.probabilities
    for window, found in zip(windows, policy.window_variances(windows), strict=True):
        law = np.zeros((m + 1, window + 1))  # P(age, rounds taken part in so far)
        law[:, 0] = policy.stationary
        for _ in range(window):
            after = np.zeros_like(law)
            for age in range(m + 1):
                after[0, 1:] += p[age] * law[age, :-1]
                after[min(age + 1, m)] += (1 - p[age]) * law[age]
            law = after
        y, weights = np.arange(window + 1), law.sum(axis=0)
        assert found == pytest.approx(weights @ y**2 - (weights @ y) ** 2, abs=1e-9)


@pytest.mark.parametrize(
    ("rates", "own"),
    [
        ("equal", {"kind": "systematic", "jitter": 0.2}),
        (RATES, {"kind": "systematic", "jitter": 0.0}),
        (RATES, {"kind": "markov-optimal", "probabilities": [0.0, 1.0]}),
    ],
)
def test_participation_shows_its_law(rates, own):
    """The law of all clients together, against a long play of the policy with that record."""
    about = {"clients": 6, "per_round": 3, "rates": rates} | own
    promised = law(about, {}, 6)
    assert isinstance(promised, MixedLaw) and law(about, {"over-selection": 1.3}, 6) is None
    each = np.repeat(np.full(6, 0.5) if rates == "equal" else rates, 1000)  # phases stay: many clients
    policy = SystematicPolicy.rated(each, "random", own["jitter"], 1) if "jitter" in own else MarkovPolicy.rated(each)
    people = everyone(np.ones(6000, np.int64))
    shown = measure(simulate(policy, people, 200, 1))
    count = sum(shown.interval_counts.values())
    for x, p in enumerate(promised.interval_pmf(), 1):
        assert shown.interval_counts.get(x, 0) / count == pytest.approx(p, abs=0.01)
    assert shown.interval_mean == pytest.approx(promised.interval_mean, rel=0.01)
    assert shown.interval_variance == pytest.approx(promised.interval_variance, rel=0.03, abs=0.01)
    windows = [1, 2, 10, 50]
    for window, variance in zip(windows, promised.window_variances(windows), strict=True):
        assert shown.window_deviation[window] == pytest.approx(variance**0.5 / window, abs=0.02 / window**0.5)
