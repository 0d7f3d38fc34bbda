"""The noise of the private study is that of its ε, and its runs are ones that the configuration allows."""

import pytest

from aoi_fl.config.run import RunConfig
from aoi_fl.lab.experiments.harness.base import Options
from aoi_fl.lab.experiments.registry import find
from aoi_fl.lab.privacy.amplification import amplified
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.privacy.account import Account
from aoi_fl.science.privacy.bounds import min_separation
from tests.fakes import slow

DELTA, ROUNDS = 1e-4, 200
UNITS = [
    (study, policy, case, own)
    for study in (find("privacy"), find("private-rival"))
    for case, policy in study.pairs
    if (own := study.arm(policy, case))
]

AMPLIFIED = [(s, case, own) for s, _, case, own in UNITS if own["policy"] == "markov-optimal"]


@pytest.mark.parametrize(
    ("policy", "bands"), {"systematic, banded": 30, "random, white, every round counted": 1}.items()
)
def test_noise_without_amplification_is_exact(policy, bands):
    for case, noise in find("privacy").arms[policy]["noise-multiplier"].items():
        account = Account(bands, ROUNDS, noise, bands)
        assert account.epsilon(DELTA) == pytest.approx(int(case.removeprefix("ε = ")), rel=1e-3)


@pytest.mark.parametrize(("study", "case", "own"), [AMPLIFIED[0], *slow(*AMPLIFIED[1:])])
def test_noise_with_amplification_is_that_of_its_epsilon(study, case, own):
    clients = study.keys["num-clients"]
    markov = MarkovPolicy.optimal(clients, study.keys["clients-per-round"], own["max-age"])
    apart = min_separation(markov)
    account = Account(apart, ROUNDS, own["noise-multiplier"], apart)
    assert amplified(markov, clients, account, DELTA) == pytest.approx(int(case.removeprefix("ε = ")), rel=0.03)


@pytest.mark.parametrize(("study", "policy", "case", "own"), UNITS)
def test_every_run_of_the_studies_is_allowed(study, policy, case, own):
    parsed = RunConfig.parse({**study.settings(Options()), **own})
    assert parsed.privacy == own.get("privacy", "none") and (case, policy) in study.pairs
