"""F3AST against its algorithm written out."""

import numpy as np
import pytest

from aoi_fl.lab.rivals.f3ast import F3ast
from aoi_fl.science.simulate import simulate
from tests.science.populations import population


def test_the_algorithm_one_client_at_a_time():
    sizes, k, beta, rounds = [3, 5, 7, 11, 13, 17], 2, 0.2, 60
    coins = np.random.default_rng(5).random((rounds, 6)) < 0.6
    history = simulate(F3ast(k, 1, beta), population(sizes), rounds, 1, availability=lambda t: coins[t - 1])
    rates, shares = [k / 6] * 6, [size / sum(sizes) for size in sizes]
    for t in range(1, rounds + 1):
        here = [i for i in range(6) if coins[t - 1][i]]
        chosen = sorted(sorted(here, key=lambda i: -((shares[i] / rates[i]) ** 2))[:k])
        rates = [(1 - beta) * r + beta * (i in chosen) for i, r in enumerate(rates)]
        selection = history.selection(t)
        assert selection.clients.tolist() == chosen
        assert selection.weights == pytest.approx([shares[i] / rates[i] for i in chosen])


def test_newcomers_begin_at_equal_turns():
    selector = F3ast(3, 4)
    simulate(selector, population(np.arange(1, 21)), 50, 4)
    before = selector.rates
    selector.select(51, population(np.arange(1, 26)))
    assert selector.rates[20:].tolist() == [3 / 25] * 5
    assert selector.rates[:20] == pytest.approx(before * 20 / 25)  # the others make room


def test_rates_start_with_the_updates_that_count():
    sent = F3ast(20, 1, wanted=15)
    sent.select(1, population(np.ones(300, int)))
    assert sent.rates.tolist() == [15 / 300] * 300
