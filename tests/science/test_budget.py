"""The budgeted choice against a plain loop in exact decimal arithmetic, and its invariants."""

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoi_fl.science import budget as budget_module
from aoi_fl.science.budget import BudgetedSelector, choose
from tests.science.populations import population


def plainly(index, payments, budget, strict=False, stop_at_first=False):
    """Algorithm 1 as a loop, money counted in decimals as a person would write them."""
    left, chosen = exact(budget), []
    for i in in_order(index):
        price = exact(payments[i])
        if price < left or (price == left and not strict):
            left -= price
            chosen.append(i)
        elif stop_at_first:
            break
    return sorted(chosen)


def exact(amount):
    return Decimal(repr(float(amount)))


def in_order(index):
    return sorted((i for i in range(len(index)) if not math.isnan(index[i])), key=lambda i: (-index[i], i))


VARIANTS = [(False, False), (True, False), (False, True), (True, True)]
cents = st.integers(1, 2000).map(lambda hundredths: hundredths / 100)
indices = st.one_of(st.integers(0, 4).map(float), st.floats(0, 100), st.just(math.nan))
rows = st.lists(st.tuples(indices, cents), min_size=1, max_size=40)


@given(
    rows,
    st.integers(1, 10000).map(lambda hundredths: hundredths / 100),
    st.sampled_from(VARIANTS),
    st.sampled_from([5, 1 << 16]),
)
@settings(max_examples=400, deadline=None)
def test_a_choice_in_parts_equals_the_plain_loop(clients, budget, variant, short):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget_module, "_SHORT", short)  # small enough that forty clients take the path of a million
        index, payments = (np.array(column) for column in zip(*clients, strict=True))
        assert choose(index, payments, budget, *variant).tolist() == plainly(index, payments, budget, *variant)


@pytest.mark.parametrize(
    ("payments", "budget", "paid", "strictly"),
    [
        ([0.1] * 10, 1.0, 10, 9),
        ([0.1, 0.2], 0.3, 2, 1),  # 0.1 + 0.2 > 0.3 in binary
        ([0.1 + 0.2], 0.3, 1, 0),
        ([1e12 + 1, 1e12 - 1], 2e12, 2, 1),
        ([2e-9, 1e-9], 3e-9, 2, 1),
        ([0.5, 0.5 + 1e-14], 1.0, 1, 1),
        *[([40 / count] * count, 40.0, count, count - 1) for count in (3, 7, 100_000)],
        ([40.0] * 1000, 40.0, 1, 0),  # sums beyond 64 bits, were they formed
        ([1e300] * 1000, 40.0, 0, 0),
    ],
)
def test_sums_are_judged_as_written_not_as_rounded(payments, budget, paid, strictly):
    for strict, size in ((False, paid), (True, strictly)):
        assert choose(np.ones(len(payments)), np.array(payments), budget, strict).tolist() == list(range(size))


def paid(payments, sizes):
    return population(sizes, payments=np.array(payments, float), sensitivities=np.ones(len(sizes)))


def test_bids_replace_the_index_and_nan_leaves_out():
    people = paid([5, 5, 5], [100, 300, 500])
    selection = BudgetedSelector(10, "whittle").select(1, people, np.array([3.0, np.nan, 1.0]))
    assert selection.clients.tolist() == [0, 2]
    np.testing.assert_allclose(selection.weights, [1 / 6, 5 / 6])
    unknown = paid([np.nan, 5, 5], [1, 1, 1])
    for variant in VARIANTS:
        chosen = BudgetedSelector(11, "maxpack", 0, *variant).select(1, unknown).clients
        assert chosen.tolist() == [1, 2]
    nobody = BudgetedSelector(10, "whittle").select(1, people, np.full(3, np.nan))
    assert nobody.clients.size == nobody.weights.size == nobody.draws.size == 0


@pytest.mark.parametrize("index", ["whittle", "abs", "maxpack", "random"])
def test_clients_without_examples_are_passed_over(index):
    selection = BudgetedSelector(3.0, index).select(1, paid([1, 1, 1], [1, 0, 3]))
    assert selection.clients.tolist() == [0, 2] and selection.weights.tolist() == [0.25, 0.75]
    assert BudgetedSelector(2.0, index).select(1, paid([1, 1], [0, 0])).weights.size == 0
