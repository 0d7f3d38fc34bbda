"""Markov policies with rates of one's own, against the linear programme, linear algebra and each client alone."""

import numpy as np
import pytest

from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.rates import own_table

RATES = np.array([15 / 100, 0.5, 0.4, 1.0, 1 / 3, 7 / 11, 0.9, 1 / 93, 2 / 29])


def with_table(policy, i):
    """A client's own table among a thousand clients, where its law is computed another way."""
    return MarkovPolicy(policy.table(i), 1000, 1, "custom", policy.dropout)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_first_ages_are_those_of_each_clients_own_table(dropout):
    rates = np.array([0.4, 0.15, 0.8, 0.09])
    policy = MarkovPolicy.rated(rates, dropout)
    steps = (np.arange(1000) + 0.5) / 1000
    for i in range(len(rates)):
        ages = np.array([policy.first_age(1, np.full(len(rates), u))[i] for u in steps])
        assert ages.tolist() == with_table(policy, i).first_age(1, steps).tolist()


def test_a_table_has_its_mean_at_any_dropout_cut_to_what_it_makes_up_for():
    for rate in RATES.tolist():
        for dropout in (0.0, 0.1, 0.3, 0.95):
            reached = 1 - min(dropout, 1 - rate)
            own = MarkovPolicy(own_table(rate, dropout), 1000, 1, "custom", 1 - reached)
            assert own.interval_mean == pytest.approx(1 / rate, rel=1e-12)


def test_a_table_has_at_most_a_million_ages():
    assert len(own_table(1e-6)) == 10**6 + 1
