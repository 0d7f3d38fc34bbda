"""The noise of the private study is that of its ε, and its runs are ones that the configuration allows."""

import pytest

from aoi_fl.config.run import RunConfig
from aoi_fl.lab.experiments.harness.base import Options
from aoi_fl.lab.experiments.studies import private
from aoi_fl.lab.privacy.amplification import amplified
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.privacy.account import Account
from aoi_fl.science.privacy.bounds import ParticipationBounds, kept_bounds

SHORT = {private._SYSTEMATIC: 30, private._FLOWER: 1}


@pytest.mark.parametrize("epsilon", private.EPSILONS)
def test_noise_without_amplification_is_exact(epsilon):
    for policy, bands in SHORT.items():
        found = ParticipationBounds(bands, -(-private.ROUNDS // bands))
        account = Account(found, private.ROUNDS, private.NOISE[policy][epsilon], bands)
        assert account.epsilon(private.DELTA) == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.parametrize("epsilon", [2, 8])
def test_noise_with_amplification_is_that_of_its_epsilon(epsilon):
    markov = MarkovPolicy.optimal(private.CLIENTS, private.PER_ROUND, 30)
    found = kept_bounds(markov, private.ROUNDS)
    account = Account(found, private.ROUNDS, private.NOISE[private._MARKOV][epsilon], found.min_separation)
    bound = amplified(markov, private.CLIENTS, account, private.DELTA)
    assert bound == pytest.approx(epsilon, rel=0.03)


@pytest.mark.parametrize("policy", private.PrivateLearning.policies)
def test_every_run_of_the_study_is_allowed(policy):
    own = {**private._KEYS[policy], "noise-multiplier": private.NOISE[policy][8]}
    config = RunConfig.parse({**private.PrivateLearning().settings(Options()), **own})
    assert config.privacy == own["privacy"]
