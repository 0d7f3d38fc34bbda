"""Markov policies with rates of one's own, against the linear programme, linear algebra and each client alone."""

import numpy as np
import pytest

from aoi_fl.science import draws
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.rates import own_table
from aoi_fl.science.rule import Clocks, Terms
from aoi_fl.science.simulate import simulate
from tests.science.populations import equals

RATES = np.array([15 / 100, 0.5, 0.4, 1.0, 1 / 3, 7 / 11, 0.9, 1 / 93, 2 / 29])


def with_table(policy, i):
    """A client's own table among a thousand clients, where its law is computed another way."""
    return MarkovPolicy(policy.table(i), 1000, 1, "custom", policy.dropout)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_first_ages_follow_each_tables_stationary_law(dropout):
    rates = np.array([0.4, 0.15, 0.8, 0.09])
    policy = MarkovPolicy.rated(rates, dropout)
    steps = (np.arange(20000) + 0.5) / 20000
    for i in range(len(rates)):
        ages = np.array([policy.first_age(1, np.full(len(rates), u))[i] for u in steps[::20]])
        own = with_table(policy, i)
        seen = np.bincount(np.minimum(ages, own.max_age), minlength=own.max_age + 1) / len(ages)
        assert seen == pytest.approx(own.stationary, abs=2e-3)
        assert ages.tolist() == own.first_age(1, steps[::20]).tolist()


def test_every_client_alone_makes_the_simulators_decisions():
    policy, rounds, seed = MarkovPolicy.rated(RATES), 80, 5
    history = simulate(policy, equals(len(RATES)), rounds, seed)
    for client in range(len(RATES)):
        table = policy.table(client)
        rule, first = MarkovPolicy.from_message(Terms(table)), draws.uniform(seed, 1, "first-age", client)
        clocks = Clocks(-rule.first_age(1, np.array([first])))
        assert history.first_ages[client] == clocks.ages(1)[0]
        for t in range(1, rounds + 1):
            willing = rule.participates(clocks, t, np.array([draws.uniform(seed, t, "participate", client)]))
            assert willing[0] == (client in history.selection(t).clients)
            clocks = rule.advance(clocks, t, willing)


def test_a_table_has_its_mean_at_any_dropout_cut_to_what_it_makes_up_for():
    for rate in RATES.tolist():
        for dropout in (0.0, 0.1, 0.3, 0.95):
            reached = 1 - min(dropout, 1 - rate)
            own = MarkovPolicy(own_table(rate, dropout), 1000, 1, "custom", 1 - reached)
            assert own.interval_mean == pytest.approx(1 / rate, rel=1e-12)


def test_a_table_has_at_most_a_million_ages():
    assert len(own_table(1e-6)) == 10**6 + 1
