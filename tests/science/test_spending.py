"""A total budget against sums in exact decimal arithmetic: it is spent, never more, and then the run is over."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoi_fl.science.budget import BudgetedSelector
from aoi_fl.science.simulate import simulate
from aoi_fl.science.spending import BudgetAccount
from tests.science.populations import equals
from tests.science.test_budget import VARIANTS, exact

ROUNDS = 30


def cost(payments, clients):
    return sum(map(exact, payments[clients]), Decimal(0))


tenths = st.integers(30, 150).map(lambda price: price / 10)


@given(
    st.lists(st.tuples(tenths, st.floats(0.1, 1)), min_size=1, max_size=6),
    st.integers(150, 1500).map(lambda total: total / 10),
    st.integers(200, 900).map(lambda budget: budget / 10),
    st.sampled_from(["whittle", "abs", "maxpack", "random"]),
    st.sampled_from(VARIANTS),
)
@settings(max_examples=40, deadline=None)
def test_rounds_spend_a_total_until_it_pays_nobody_more(clients, total, budget, index, variant):
    payments, sensitivities = (np.array(column) for column in zip(*clients, strict=True))
    people = replace(equals(payments.size), payments=payments, sensitivities=sensitivities)
    bounded = BudgetedSelector(budget, index, 3, *variant, total=total)
    history = simulate(bounded, people, ROUNDS, 3)
    left = exact(total)
    for t in range(1, history.rounds + 1):
        assert left >= exact(payments.min())
        chosen = history.selection(t).clients
        left -= cost(payments, chosen)
        assert left >= 0
    assert bounded.account.left == pytest.approx(float(left), abs=1e-12)
    assert history.rounds == ROUNDS or left < exact(payments.min())
    assert (bounded.over(payments) is None) == (left >= exact(payments.min()))


def test_only_a_round_s_own_budget_is_strict():
    people = replace(equals(1), payments=np.array([4.0]), sensitivities=np.ones(1))
    for total, rounds in ((8.0, 2), (4.0, 1)):
        assert simulate(BudgetedSelector(9.0, strict=True, total=total), people, 5, 1).rounds == rounds
    assert simulate(BudgetedSelector(4.0, strict=True), people, 5, 1).counts.tolist() == [0]


@pytest.mark.parametrize(
    ("total", "payments"), [(40.0, [40 / 3] * 3), (100.0, [1 / 3] * 300), (100.1, [0.1] * 1001), (1.0, [0.7, 0.3])]
)
def test_a_total_pays_for_what_adds_up_to_it(total, payments):
    account = BudgetAccount(max(payments), total)
    for payment in payments:
        assert account.limit == max(payments) or account.limit == pytest.approx(payment)
        account.book(np.array([payment]))
    assert account.left == account.limit == 0.0


def test_an_account_refuses_more_than_is_left():
    account = BudgetAccount(1.0, 1.0)
    account.book(np.array([0.1, 0.2, 0.4]))
    with pytest.raises(ValueError, match=r"round 2 spends 0\.4, more than what is left of the total budget, 0\.3"):
        account.book(np.array([0.4]))
    account.book(np.array([0.1 + 0.2]))
    assert (account.left, account.spent) == (0, [0.7, 0.3])
    with pytest.raises(ValueError, match="spends 1e-09, more than what is left of the total budget, 0"):
        account.book(np.array([1e-9]))
