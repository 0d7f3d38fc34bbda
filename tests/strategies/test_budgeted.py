"""Budgeted refresh in the federation: whom it pays, what it does with bids, absences and failures."""

import logging
from functools import partial

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from aoi_fl.science.budget import BudgetedSelector
from aoi_fl.strategies import BudgetedRefresh
from tests.fakes import ScriptedGrid, ToyApp, play, unchanged, zeros
from tests.refusals import refused

B = 10.0
PAYMENTS, SENSITIVITIES = [4.0, 3.0, 5.0, 6.0], [0.9, 0.5, 0.2, 0.7]
ONE = 1  # the client that misbehaves


def by_hand(ages, there=(0, 1, 2, 3), payments=PAYMENTS, sensitivities=SENSITIVITIES, budget=B):
    """Xu et al., eq. (26) and Algorithm 1 with ≤ B, in plain Python."""
    index = {i: (ages[i] + 1) * (ages[i] + 2) * budget * sensitivities[i] / (2 * payments[i]) for i in there}
    left, chosen = budget, []
    for i in sorted(index, key=lambda i: (-index[i], i)):
        if payments[i] <= left:
            left -= payments[i]
            chosen.append(i)
    return sorted(chosen)


def refreshed_of(notes):
    return [[p.client for p in r.participations if p.refreshed] for r in notes.rounds]


def federation(terms=None, spoil=None, kinds=("query.bid",)):
    """Return an app; ``terms(i)`` is what client i declares, ``spoil`` changes what client ONE answers."""

    def declare(i):
        return {"num-examples": 1, "payment": PAYMENTS[i], "sensitivity": SENSITIVITIES[i]}

    def behave(message, act, kind, round_, client):
        reply = act()
        return spoil(message, reply) if spoil and client == ONE and kind in kinds else reply

    return ToyApp(unchanged, examples=1, declares=terms or declare, spoil=behave)


def run(folder, app=None, rounds=6, needs=4, budget=B, index="whittle", away=(), notes=None, nodes=4, **how):
    """Run rounds; ``away`` has the rounds in which a client is not connected."""

    def present(grid):
        following = max((record.round for record in grid.notes.rounds), default=0) + 1
        return [i for i in range(nodes) if following not in dict(away).get(f"c{i}", ())]

    grid = partial(ScriptedGrid, present=present)
    make = partial(BudgetedRefresh, BudgetedSelector(budget, index, 1), needs, **how)
    more = {"grid": grid, "notes": notes, "start": zeros(), "seed": 1, "join_timeout": 0.1}
    return play(make, app or federation(), folder, rounds, nodes, **more)[0]


def with_bid(**changes):
    def spoil(message, reply):
        values = {**reply.content["aoi"], **changes}
        content = ConfigRecord({k: v for k, v in values.items() if v is not None})
        return Message(RecordDict({"aoi": content}), reply_to=message)

    return spoil


def raises(message, reply):
    raise RuntimeError("no bid today")


def no_record(message, reply):
    return Message(RecordDict({"other": ConfigRecord({"bid": 3.0})}), reply_to=message)


BAD_BIDS = {
    "nan": (with_bid(bid=float("nan")), "refused", "bid is nan"),
    "negative": (with_bid(bid=-0.5), "refused", "its bid is -0.5, below 0"),
    "text": (with_bid(bid="much"), "refused", "bid is 'much'"),
    "huge": (with_bid(bid=2**63 - 1, payment=2**63 - 1), "refused", "its declared payment is 3"),
    "dearer": (with_bid(payment=3.5), "refused", "it asks for 3.5, its declared payment is 3"),
    "nan payment": (with_bid(payment=float("nan")), "refused", "payment is nan"),
    "another's name": (with_bid(name="client-0"), "refused", "calls itself 'client-0'"),
    "no record": (no_record, "refused", "malformed bid"),
    "error": (raises, "failed", "no bid today"),
}


@pytest.mark.parametrize(
    ("bid", "trains"),
    [*((bid, "selected") for bid in BAD_BIDS), ("nan", "all"), ("no record", "all"), ("error", "all")],
)
def test_a_bad_bid_leaves_its_bidder_out_of_that_round(bid, trains, tmp_path, caplog):
    spoil, outcome, words = BAD_BIDS[bid]

    def in_round_3(message, reply):
        return spoil(message, reply) if message.content["aoi"]["round"] == 3 else reply

    caplog.set_level(logging.WARNING, "flwr")
    notes = run(tmp_path, federation(spoil=in_round_3), source="bid", trains=trains)
    ages = [0] * 4
    for record, refreshed in zip(notes.rounds, refreshed_of(notes), strict=True):
        there = [0, 2, 3] if record.round == 3 else [0, 1, 2, 3]
        assert refreshed == by_hand(ages, there), record.round
        ages = [0 if i in refreshed else age + 1 for i, age in enumerate(ages)]
        trained = [p.client for p in record.participations if p.outcome == "trained"]
        assert trained == (refreshed if trains == "selected" else there)
    third = notes.rounds[2]
    (out,) = [p for p in third.participations if p.client == ONE]
    assert (out.outcome, out.name, out.refreshed, out.payment) == (outcome, "client-1", False, None)
    assert words in out.reason and third.dropped == 1
    assert "Round 3: client-1 (client 1)" in caplog.text and words in caplog.text
    assert all(r.dropped == 0 for r in notes.rounds if r.round != 3)
    assert any(ONE in chosen for chosen in refreshed_of(notes)[3:])


def test_a_total_budget_ends_the_run(tmp_path):
    whole = run(tmp_path / "a", rounds=9, total_budget=25.0)
    ages, left = [0] * 4, 25.0
    for record, refreshed in zip(whole.rounds, refreshed_of(whole), strict=True):
        assert refreshed == by_hand(ages, budget=min(B, left)) and record.spent == sum(PAYMENTS[i] for i in refreshed)
        ages, left = [0 if i in refreshed else age + 1 for i, age in enumerate(ages)], left - record.spent
    assert len(whole.rounds) == 3 and left < min(PAYMENTS)


def test_who_asks_for_less_is_paid_less(tmp_path):
    notes = run(tmp_path, federation(spoil=with_bid(bid=100.0, payment=0.5)), rounds=2, source="bid")
    # Its own index stands; with half a unit for it, 4 and 5 fit as well: 0 is worth 2.25 and 3 is 1.17, but 0.5+4+6>10.
    assert refreshed_of(notes)[0] == [0, 1, 2]
    first = notes.rounds[0]
    assert first.spent == 9.5
    assert [p.payment for p in first.participations] == [4.0, 0.5, 5.0]


JOINERS = {
    "no payment": ({"sensitivity": 5.0}, "has declared no payment or sensitivity"),
    "no sensitivity": ({"payment": 1.0}, "has declared no payment or sensitivity"),
    "too dear": (
        {"payment": 11.0, "sensitivity": 5.0},
        "client client-3 can never be chosen: the budget does not pay 11",
    ),
}


@pytest.mark.parametrize("how", [{}, {"source": "bid", "trains": "all"}], ids=str)
@pytest.mark.parametrize(("terms", "words"), JOINERS.values(), ids=JOINERS.keys())
def test_who_comes_later_on_impossible_terms_is_never_chosen(terms, words, how, tmp_path, caplog):
    def declare(i):
        return terms if i == 3 else {"payment": PAYMENTS[i], "sensitivity": SENSITIVITIES[i]}

    caplog.set_level(logging.WARNING, "flwr")
    notes = run(tmp_path, federation(declare), rounds=6, needs=3, away={"c3": range(1, 3)}, **how)
    assert len(notes.rounds) == 6 and caplog.text.count(words) == 1
    ages = [0] * 3
    for refreshed in refreshed_of(notes):
        assert refreshed == by_hand(ages, (0, 1, 2))
        ages = [0 if i in refreshed else age + 1 for i, age in enumerate(ages)]
    assert all(r.dropped == 0 for r in notes.rounds)  # it is not asked for a bid that it cannot make
    if how:
        assert [len(r.participations) for r in notes.rounds] == [3, 3, 4, 4, 4, 4]


def test_without_usable_terms_no_run_starts(tmp_path):
    def without(key, whom):
        return lambda i: {k: v for k, v in {"payment": 1.0, "sensitivity": 1.0}.items() if i != whom or k != key}

    for key in ("payment", "sensitivity"):
        with refused(f"{key} of client client-0", None):
            run(tmp_path, federation(lambda i, key=key: without(key, i)(i)))
    assert refreshed_of(run(tmp_path / "m", federation(without("sensitivity", 2)), rounds=1, index="maxpack"))
    app = federation(without("sensitivity", 2))
    assert refreshed_of(run(tmp_path / "b", app, rounds=1, index="maxpack", source="bid"))[0]
    with refused("budget", 2.5):
        run(tmp_path / "n", budget=2.5)


@pytest.mark.parametrize("whom", [(0,), (ONE,), (0, ONE, 3)], ids=str)
@pytest.mark.parametrize("key", ["payment", "sensitivity", "both"])
@pytest.mark.parametrize("source", ["server", "bid"])
def test_an_omission_at_the_first_roll_call_leaves_one_out(source, key, whom, tmp_path, caplog):
    def declare(i):
        terms = {"payment": PAYMENTS[i], "sensitivity": SENSITIVITIES[i]}
        return {k: v for k, v in terms.items() if i not in whom or key not in (k, "both")}

    caplog.set_level(logging.WARNING, "flwr")
    notes = run(tmp_path, federation(declare), rounds=4, source=source)
    ages, there = [0] * 4, [i for i in range(4) if i not in whom]
    for refreshed in refreshed_of(notes):
        assert refreshed == by_hand(ages, there)
        ages = [0 if i in refreshed else age + 1 for i, age in enumerate(ages)]
    for i in range(4):
        assert caplog.text.count(f"client client-{i} has declared no payment or sensitivity") == (i in whom)


NAMED = ("whittle", "abs", "maxpack", "random")
WAYS = [*((i, "server", t) for i in NAMED for t in ("selected", "all")), *((i, "bid", "selected") for i in NAMED[:3])]


@pytest.mark.parametrize("extreme", [1e300, 3.0], ids=["extreme", "plain"])
@pytest.mark.parametrize(("index", "source", "trains"), WAYS)
def test_who_takes_and_never_delivers_is_not_paid_and_rests(index, source, trains, extreme, tmp_path):
    def of(folder, hostile):
        """Return the clients that refreshed and trained, and all the money."""

        def behave(message, act, kind, round_, client):
            if not hostile or client != ONE or kind == "query.hello":
                return act()
            return with_bid(bid=extreme)(message, act()) if kind == "query.bid" else raises(message, None)

        def declare(i):
            return {"payment": 1.0, "sensitivity": extreme if hostile and i == ONE else 1.0 + i / 10}

        make = partial(
            BudgetedRefresh,
            BudgetedSelector(2.0, index, 1),
            10,
            source=source,
            trains=trains,
            total_budget=2.0 * ROUNDS,
        )
        app = ToyApp(unchanged, examples=1, declares=declare, spoil=behave)
        notes, *_ = play(make, app, folder, ROUNDS, 10, start=zeros(), seed=1)
        parts = [p for r in notes.rounds for p in r.participations if p.refreshed]
        assert sum(r.spent for r in notes.rounds) == sum(p.outcome == "trained" for p in parts)
        assert [p.payment for p in parts] == [1.0 if p.outcome == "trained" else None for p in parts]
        assert len(notes.rounds) == ROUNDS
        return [p.client for p in parts if p.outcome == "trained"], len(parts)

    usual, _ = of(tmp_path / "a", False)
    served, chosen = of(tmp_path / "b", True)
    assert ONE not in served and chosen - len(served) <= 8  # tried in rounds 1, 2, 4, 8, ... at most
    assert len(served) >= len(usual) - usual.count(ONE)


ROUNDS = 30


@pytest.mark.parametrize(
    ("index", "source"), [(i, s) for i, s, t in WAYS if t == "selected" and i in ("whittle", "abs")]
)
def test_an_extreme_client_that_delivers_takes_a_bounded_share(index, source, tmp_path):
    """Its φ counts as ten medians, and its bid as the index of that: its gaps are √10 of the others' at best."""
    spoil = with_bid(bid=1e300)

    def behave(message, act, kind, round_, client):
        return spoil(message, act()) if client == ONE and kind == "query.bid" else act()

    def declare(i):
        return {"payment": 1.0, "sensitivity": 1e30 if i == ONE else 1.0 + i / 10}

    make = partial(BudgetedRefresh, BudgetedSelector(2.0, index, 1), 10, source=source)
    notes, *_ = play(
        make, ToyApp(unchanged, examples=1, declares=declare, spoil=behave), tmp_path, ROUNDS, 10, start=zeros(), seed=1
    )
    counts = np.bincount([i for chosen in refreshed_of(notes) for i in chosen], minlength=10)
    assert counts[ONE] <= 0.65 * ROUNDS and counts.min() >= 2


@pytest.mark.parametrize("others", [[1.0], [1.0, 1.0, 1.0], [0.1, 1.0, 5.0]], ids=str)
def test_a_usual_spread_of_sensitivities_is_not_bounded(others, tmp_path, caplog):
    for largest, bounded in ((5.0, False), (1e30, True)):
        caplog.clear()
        app = federation(lambda i, largest=largest: {"payment": 1.0, "sensitivity": [*others, largest][i]})
        run(tmp_path / str(largest), app, 1, len(others) + 1, nodes=len(others) + 1)
        assert ("counts as" in caplog.text) == bounded
