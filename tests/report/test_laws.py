"""The laws that a report draws beside what it has measured."""

import numpy as np
import pytest

from aoi_fl.protocol.records import RoundRecord
from aoi_fl.report.summary import sentence
from aoi_fl.science.interval_law import MixedLaw, window_deviation
from aoi_fl.science.load import measure
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.selection import Population
from aoi_fl.science.simulate import simulate
from aoi_fl.science.systematic import SystematicPolicy
from tests.report.recorded import MARKOV, K, N, loaded, record

RATES = [0.5, 0.25, 0.25, 1.0, 0.4, 0.6]


@pytest.mark.parametrize("policy", [MARKOV, MarkovPolicy.optimal(20, 3, 10), MarkovPolicy.optimal(12, 3, 2)])
def test_window_deviation_equals_the_exact_law_of_the_count(policy):
    windows = [1, 2, 5, 9]
    m, p = policy.max_age, policy.probabilities
    for window, deviation in zip(windows, window_deviation(policy, windows), strict=True):
        law = np.zeros((m + 1, window + 1))  # P(age, rounds taken part in so far)
        law[:, 0] = policy.stationary
        for _ in range(window):
            after = np.zeros_like(law)
            for age in range(m + 1):
                after[0, 1:] += p[age] * law[age, :-1]
                after[min(age + 1, m)] += (1 - p[age]) * law[age]
            law = after
        y, weights = np.arange(window + 1), law.sum(axis=0)
        variance = weights @ y**2 - (weights @ y) ** 2
        assert deviation == pytest.approx(np.sqrt(variance) / window, abs=1e-9)


@pytest.mark.parametrize(
    ("rates", "own"),
    [
        ("equal", {"kind": "systematic", "jitter": 0.2}),
        (RATES, {"kind": "systematic", "jitter": 0.0}),
        (RATES, {"kind": "markov-optimal", "probabilities": [0.0, 1.0]}),
    ],
)
def test_participation_shows_its_law(tmp_path, rates, own):
    """The law of all clients together, against a long play of the policy with that record."""
    notes = {"clients": 6, "per_round": 3, "rates": rates} | own
    folder = record(tmp_path / "s", [RoundRecord(1)], [], policy=notes, config={"policy": own["kind"]})
    promised = loaded(folder)[0].law
    assert isinstance(promised, MixedLaw)
    each = np.repeat(np.full(6, 0.5) if rates == "equal" else rates, 1000)  # phases stay: many clients
    policy = SystematicPolicy.rated(each, "random", own["jitter"], 1) if "jitter" in own else MarkovPolicy.rated(each)
    everyone = Population(np.zeros(6000, np.int64), np.ones(6000, np.int64), np.ones(6000, np.bool_))
    shown = measure(simulate(policy, everyone, 200, 1))
    count = sum(shown.interval_counts.values())
    for x, p in enumerate(promised.interval_pmf(), 1):
        assert shown.interval_counts.get(x, 0) / count == pytest.approx(p, abs=0.01)
    assert shown.interval_mean == pytest.approx(promised.interval_mean, rel=0.01)
    assert shown.interval_variance == pytest.approx(promised.interval_variance, rel=0.03, abs=0.01)
    for window, deviation in zip([1, 2, 10, 50], window_deviation(promised, [1, 2, 10, 50]), strict=True):
        assert shown.window_deviation[window] == pytest.approx(deviation, abs=0.02 / window**0.5)


_OWN = [0.5, 0.5, 0.25, 0.75]


@pytest.mark.parametrize("kind", ["markov-optimal", "systematic"])
@pytest.mark.parametrize(
    "what",
    [
        {"rates": "size"},
        {"rates": "equal", "absence": "learned"},
        {"rates": "equal", "adaptive_dropout": True},
        {"rates": [*_OWN, 0.5, 0.5]},  # two have left, and the others share k out: rates have not always been these
        {"rates": [1.0, 1 - 1e-9, 1e-9, 1e-15]},
    ],
)
def test_rates_that_are_not_those_of_the_whole_run_show_no_law(tmp_path, kind, what):
    of_tables = {"probabilities": [0.0, 1.0]} if kind == "markov-optimal" else {"jitter": 0.0}
    notes = {"kind": kind, "clients": 4, "per_round": 2, **of_tables}
    record(tmp_path / "m", [RoundRecord(1)], [], policy=notes | what, config={"policy": kind})
    record(tmp_path / "all", [RoundRecord(1)], [], policy=notes | {"rates": _OWN}, config={"policy": kind})
    changing, steady = loaded(tmp_path / "m", tmp_path / "all")
    assert changing.law is None and steady.law is not None


@pytest.mark.parametrize("policy", ["markov", "random"])
def test_who_is_chosen_and_may_not_count_shows_no_law(tmp_path, policy):
    sent = {"kind": "markov-increasing", "clients": N, "per_round": K + 2, "probabilities": MARKOV.probabilities}
    sent = sent if policy == "markov" else {"kind": "RandomSelection", "per_round": K + 2}
    own = {"clients-per-round": K, "num-clients": N, "over-selection": 1.0}
    for name, more, known in (
        ("over", {"clock": "always", "over-selection": 1.3}, False),
        ("away", {"clock": "generated"}, False),
        ("here", {"clock": "always"}, True),
        ("none", {"clock": ""}, True),
    ):
        record(tmp_path / name, [RoundRecord(1)], [], policy=sent, config=own | more)
        (run,) = loaded(tmp_path / name)
        assert (run.law is not None) == known
        assert f"{K} of {N} clients a round" in sentence(run)
