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


TABLES = {
    **{(private.CLIENTS, private.PER_ROUND, 30, private.NOISE[private._MARKOV][e]): e for e in (2, 8)},
    **{
        (1000, 50, own["max-age"], own["noise-multiplier"]): int(case.removeprefix("ε = "))
        for (_, case), own in private._RIVALS.items()
        if own["policy"] == "markov-optimal"
    },
}


@pytest.mark.parametrize(("table", "epsilon"), TABLES.items(), ids=str)
def test_noise_with_amplification_is_that_of_its_epsilon(table, epsilon):
    clients, per_round, max_age, noise = table
    markov = MarkovPolicy.optimal(clients, per_round, max_age)
    found = kept_bounds(markov, private.ROUNDS)
    account = Account(found, private.ROUNDS, noise, found.min_separation)
    assert amplified(markov, clients, account, private.DELTA) == pytest.approx(epsilon, rel=0.03)


UNITS = [
    *((private.PrivateLearning(), "ε = 8", policy) for policy in private.PrivateLearning.policies),
    *((private.PrivateRival(), "ε = 2", policy) for policy in private.PrivateRival.policies[:-1]),
]


@pytest.mark.parametrize(("study", "case", "policy"), UNITS)
def test_every_run_of_the_studies_is_allowed(study, case, policy):
    own = study.own({"case": case, "policy": policy})
    assert RunConfig.parse({**study.settings(Options()), **own}).privacy == own["privacy"]
