"""Budgeted refresh in the federation: payments, bids, absences and failures."""

import itertools
import logging
from functools import partial

import numpy as np
import pytest

from aoi_fl.science.budget import BudgetedSelector
from aoi_fl.strategies import BudgetedRefresh
from tests.fakes import ToyApp, play, raises, unchanged, with_answer, with_record, zeros
from tests.refusals import refused

B = 10.0
PAYMENTS, SENSITIVITIES = [4.0, 3.0, 5.0, 6.0], [0.9, 0.5, 0.2, 0.7]
ONE = 1  # the client that misbehaves


def by_hand(ages, there):
    """Xu et al., eq. (26) and Algorithm 1 with ≤ B, in plain Python."""
    index = {i: (ages[i] + 1) * (ages[i] + 2) * B * SENSITIVITIES[i] / (2 * PAYMENTS[i]) for i in there}
    left, chosen = B, []
    for i in sorted(index, key=lambda i: (-index[i], i)):
        if PAYMENTS[i] <= left:
            left -= PAYMENTS[i]
            chosen.append(i)
    return sorted(chosen)


def refreshed_of(notes):
    return [[p.client for p in r.participations if p.refreshed] for r in notes.rounds]


def follows_the_algorithm(notes, there):
    """Check that each round refreshes what the algorithm chooses of the clients ``there(round)``."""
    ages = [0] * len(PAYMENTS)
    for record, refreshed in zip(notes.rounds, refreshed_of(notes), strict=True):
        assert refreshed == by_hand(ages, there(record.round)), record.round
        ages = [0 if i in refreshed else age + 1 for i, age in enumerate(ages)]


def federation(terms=None, spoil=None, kinds=("query.bid",), whom=(ONE,)):
    """Return an app; ``terms(i)`` is what client i declares, ``spoil`` changes what the clients ``whom`` answer."""

    def declare(i):
        return {"num-examples": 1, "payment": PAYMENTS[i], "sensitivity": SENSITIVITIES[i]}

    def behave(message, act, kind, round_, client):
        return spoil(message, act) if spoil and client in whom and kind in kinds else act()

    return ToyApp(unchanged, examples=1, declares=terms or declare, spoil=behave)


def run(folder, app=None, rounds=6, needs=4, budget=B, index="whittle", nodes=4, **how):
    make = partial(BudgetedRefresh, BudgetedSelector(budget, index, 1), needs, **how)
    return play(make, app or federation(), folder, rounds, nodes, start=zeros(), seed=1, join_timeout=0.1)


FAILS = raises(RuntimeError("no bid today"))
BAD_BIDS = {
    "nan": (with_answer(bid=float("nan")), "refused", "bid is nan"),
    "negative": (with_answer(bid=-0.5), "refused", "its bid is -0.5, below 0"),
    "dearer": (with_answer(payment=3.5), "refused", "it asks for 3.5, its declared payment is 3"),
    "another's name": (with_answer(name="client-0"), "refused", "calls itself 'client-0'"),
    "no record": (with_record("aoi", None), "refused", "malformed bid"),
    "error": (FAILS, "failed", "no bid today"),
}


@pytest.mark.parametrize(
    ("bid", "trains"),
    [*((bid, "selected") for bid in BAD_BIDS), ("nan", "all"), ("no record", "all"), ("error", "all")],
)
def test_a_bad_bid_leaves_its_bidder_out_of_that_round(bid, trains, tmp_path, caplog):
    spoil, outcome, words = BAD_BIDS[bid]

    def in_round_3(message, act):
        return spoil(message, act) if message.content["aoi"]["round"] == 3 else act()

    caplog.set_level(logging.WARNING, "flwr")
    notes = run(tmp_path, federation(spoil=in_round_3), source="bid", trains=trains)
    there = lambda round_: [0, 2, 3] if round_ == 3 else [0, 1, 2, 3]  # noqa: E731
    follows_the_algorithm(notes, there)
    expected = refreshed_of(notes) if trains == "selected" else [there(record.round) for record in notes.rounds]
    assert notes.trained() == expected
    third = notes.rounds[2]
    (out,) = [p for p in third.participations if p.client == ONE]
    assert (out.outcome, out.name, out.refreshed, out.payment) == (outcome, "client-1", False, None)
    assert words in out.reason and third.dropped == 1
    assert "Round 3: client-1 (client 1)" in caplog.text and words in caplog.text
    assert sum(notes.column("dropped")) == 1


def test_a_client_that_asks_for_less_is_paid_less(tmp_path):
    notes = run(tmp_path, federation(spoil=with_answer(bid=100.0, payment=0.5)), rounds=2, source="bid")
    # Its own index stands; with half a unit for it, 4 and 5 fit as well: 0 is worth 2.25 and 3 is 1.17, but 0.5+4+6>10.
    assert refreshed_of(notes)[0] == [0, 1, 2]
    first = notes.rounds[0]
    assert first.spent == 9.5
    assert [p.payment for p in first.participations] == [4.0, 0.5, 5.0]


@pytest.mark.parametrize("key", ["payment", "sensitivity"])
def test_without_usable_terms_no_run_starts(key, tmp_path):
    with refused(f"{key} of client client-0", None):
        run(tmp_path, federation(lambda i: {other: 1.0 for other in ("payment", "sensitivity") if other != key}))


@pytest.mark.parametrize("source", ["server", "bid"])
def test_maxpack_needs_no_sensitivity(source, tmp_path):
    app = federation(lambda i: {"payment": 1.0} | ({"sensitivity": 1.0} if i != 2 else {}))
    assert refreshed_of(run(tmp_path, app, rounds=1, index="maxpack", source=source))[0]


@pytest.mark.parametrize("whom", [(0,), (ONE,), (0, ONE, 3)], ids=str)
@pytest.mark.parametrize("key", ["payment", "sensitivity", "both"])
@pytest.mark.parametrize("source", ["server", "bid"])
def test_an_omission_at_the_first_roll_call_leaves_one_out(source, key, whom, tmp_path, caplog):
    def declare(i):
        terms = {"payment": PAYMENTS[i], "sensitivity": SENSITIVITIES[i]}
        return {k: v for k, v in terms.items() if i not in whom or key not in (k, "both")}

    caplog.set_level(logging.WARNING, "flwr")
    notes = run(tmp_path, federation(declare), rounds=4, source=source)
    follows_the_algorithm(notes, lambda round_: [i for i in range(4) if i not in whom])
    for i in range(4):
        assert caplog.text.count(f"client client-{i} has declared no payment or sensitivity") == (i in whom)


NAMED = ("whittle", "abs", "maxpack", "random")
WAYS = [*((i, "server", "selected") for i in NAMED), *((i, "bid", "selected") for i in NAMED[:3])]


@pytest.mark.parametrize(
    ("index", "source", "trains", "extreme"),
    [
        *((*way, 1e300) for way in WAYS),
        ("whittle", "server", "all", 3.0),
        ("random", "server", "all", 1e300),
        ("abs", "bid", "selected", 3.0),
    ],
)
def test_who_takes_and_never_delivers_is_not_paid_and_rests(index, source, trains, extreme, tmp_path):
    def spoil(message, act):
        return (FAILS if message.metadata.message_type == "train" else with_answer(bid=extreme))(message, act)

    def declare(i):
        return {"payment": 1.0, "sensitivity": extreme if i == ONE else 1.0 + i / 10}

    app = federation(declare, spoil, ("train", "query.bid"))
    how = {"source": source, "trains": trains, "total_budget": 2.0 * ROUNDS}
    notes = run(tmp_path, app, ROUNDS, 10, 2.0, index, 10, **how)
    chosen = [p for p in notes.parts if p.refreshed]
    served = [p.client for p in chosen if p.outcome == "trained"]
    assert sum(notes.column("spent")) == len(served) >= 0.9 * 2 * ROUNDS  # a tenth would be its own
    assert [p.payment for p in chosen] == [1.0 if p.outcome == "trained" else None for p in chosen]
    assert len(notes.rounds) == ROUNDS
    assert ONE not in served and len(chosen) - len(served) <= 8  # tried in rounds 1, 2, 4, 8, ... at most


ROUNDS = 30


@pytest.mark.parametrize("hostile", [{ONE}, {ONE, 2}], ids=len)
@pytest.mark.parametrize(("index", "source"), [(i, s) for i, s, _ in WAYS if i in ("whittle", "abs")])
def test_an_extreme_client_that_delivers_takes_a_bounded_share(index, source, hostile, tmp_path):
    """Its φ counts as five medians, and its bid as the index of that: its gaps are 0.45 of the others' at best."""

    def declare(i):
        return {"payment": 1.0, "sensitivity": 1e30 if i in hostile else 1.0 + i / 10}

    app = federation(declare, with_answer(bid=1e300), whom=hostile)
    notes = run(tmp_path, app, ROUNDS, 10, 2.0, index, 10, source=source)
    counts = np.bincount([i for chosen in refreshed_of(notes) for i in chosen], minlength=10)
    assert counts[list(hostile)].max() <= 0.5 * ROUNDS and counts.min() >= 3


@pytest.mark.parametrize("index", NAMED)
def test_a_client_that_costs_nothing_has_no_round_alone(index, tmp_path):
    app = federation(lambda i: {"payment": 1e-30 if i == ONE else 1.0, "sensitivity": 1.0})
    notes = run(tmp_path, app, ROUNDS, budget=2.0, index=index, total_budget=8.5)
    assert [len(chosen) for chosen in notes.trained()] == [3] * 4


@pytest.mark.parametrize(
    ("index", "source", "fails"), [(*way[:2], fails) for fails in (False, True) for way in WAYS[:: 1 + 2 * fails]]
)
def test_a_client_of_the_whole_budget_leaves_one_round_empty(index, source, fails, tmp_path):
    turns = itertools.cycle([fails, False])

    def spoil(message, act):
        return FAILS(message, act) if next(turns) else act()

    def declare(i):
        return {"payment": 2.0 if i == ONE else 1.0, "sensitivity": 10.0 if i == ONE else 1.0}

    trained = run(
        tmp_path, federation(declare, spoil, ("train",)), 60, budget=2.0, index=index, source=source
    ).trained()
    assert sum(not clients for clients in trained) == fails
    assert fails or trained.count([ONE]) >= 10


@pytest.mark.parametrize("others", [[1.0], [1.0, 1.0, 1.0], [0.1, 1.0, 5.0]], ids=str)
def test_a_usual_spread_of_sensitivities_is_not_bounded(others, tmp_path, caplog):
    for largest, bounded in ((5.0, False), (1e30, True)):
        caplog.clear()
        app = federation(lambda i, largest=largest: {"payment": 1.0, "sensitivity": [*others, largest][i]})
        run(tmp_path / str(largest), app, 1, len(others) + 1, nodes=len(others) + 1)
        assert ("counts as" in caplog.text) == bounded
