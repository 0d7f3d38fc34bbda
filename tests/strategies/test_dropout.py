"""Clients that are lost: the estimate of how many, and the table that makes up for it, in federations as played."""

import logging
import math
from functools import partial

import numpy as np
import pytest

from aoi_fl.config.run import RunConfig
from aoi_fl.science import draws
from aoi_fl.science.dropout import achieved, largest_dropout, reissued
from aoi_fl.science.errors import NothingTrainedError
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.server.strategy import make_strategy
from aoi_fl.strategies import MarkovParticipation, RoundOptions
from tests import fakes
from tests.fakes import HELLO, HUNG, TRAIN, ScriptedGrid, ToyApp, zeros

N, K, M, D = 20, 8, 5, 0.3
WARM_UP, ROUNDS = 40, 140
WIRES = ("poll", "broadcast", "reserve")


def failing(dropout, kind=TRAIN, rounds=range(1000)) -> ToyApp:
    """Return an app whose clients fail with probability d on messages of one kind: before training, or when asked."""

    def behave(message, act, sent, round_, client):
        if sent == kind and round_ in rounds and draws.uniform(77, round_, "lost", client) < dropout:
            raise RuntimeError("out of reach")
        return act()

    return ToyApp(examples=1, loss=None, spoil=behave)


def play(folder, app, wire="poll", *, adaptive=True, n=N, k=K, rates="equal", weights="auto", rounds=ROUNDS, **options):
    settings = {
        "coordination": wire,
        "compensate": "dropout" if adaptive else "none",
        "rates": rates,
        "weights": weights,
    }
    make = partial(MarkovParticipation.optimal, n, k, M, **settings)
    return fakes.play(make, app, folder, rounds, n, start=zeros(), **{"seed": 5} | options)[0]


def intervals(notes):
    """Return the rounds between participations that counted, after the warm-up, all clients together."""
    when = {}
    for record in notes.rounds[WARM_UP:]:
        for part in record.participations:
            if part.outcome == "trained" and not part.forced:
                when.setdefault(part.client, []).append(record.round)
    return np.concatenate([np.diff(rounds) for rounds in when.values()])


@pytest.fixture(autouse=True)
def quiet():
    """Keep some thousand lines about lost clients out of the log."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    yield
    logging.getLogger("flwr").setLevel(logging.NOTSET)


@pytest.mark.parametrize("wire", ["reserve", pytest.param("poll", marks=pytest.mark.slow)])
def test_participations_that_count_are_n_over_k_rounds_apart(wire, tmp_path):
    """Within 0.15 round of 2.5, some four standard errors; without adaptation they are 2.93 apart (the thinned chain).

    The error: 780 intervals with a deviation of 0.9 give 0.032; the estimate of d, off by 0.014 for some fifty rounds
    at a time, another 0.02.
    """
    adapted = play(tmp_path / "on", failing(D), wire)
    waits = intervals(adapted)
    assert len(waits) > 700 and waits.mean() == pytest.approx(N / K, abs=0.15)
    estimates = [r.dropout for r in adapted.rounds]
    assert estimates[0] == 0 and np.mean(estimates[WARM_UP:]) == pytest.approx(D, abs=0.04)
    if wire != "poll":
        return
    plain = play(tmp_path / "off", failing(D), wire, adaptive=False)
    thinned = MarkovPolicy(MarkovPolicy.optimal(N, K, M).probabilities, N, K, "optimal", dropout=D)
    assert thinned.interval_mean == pytest.approx(2.93, abs=0.01)
    assert intervals(plain).mean() == pytest.approx(thinned.interval_mean, abs=0.15)
    assert {r.dropout for r in plain.rounds} == {None}


def test_rates_of_ones_own_are_those_of_what_counts(tmp_path):
    """Eight clients take part every second round, twelve every third, though 30 % of their work is lost."""
    notes = play(tmp_path, failing(D), rates=[0.5] * 8 + [1 / 3] * 12)
    late = [p.client for r in notes.rounds[WARM_UP:] for p in r.participations if p.outcome == "trained"]
    shares = np.bincount(late, minlength=N) / (ROUNDS - WARM_UP)
    assert shares[:8].mean() == pytest.approx(0.5, abs=0.04) and shares[8:].mean() == pytest.approx(1 / 3, abs=0.03)


def test_clients_that_cannot_be_asked(tmp_path):
    notes = play(tmp_path, failing(D, "query.participate"))
    assert intervals(notes).mean() == pytest.approx(N / K, abs=0.15)
    assert np.mean([r.dropout for r in notes.rounds[WARM_UP:]]) == pytest.approx(D, abs=0.04)


def test_without_losses_the_table_is_the_papers(tmp_path):
    adapted, plain = (play(tmp_path / str(on), failing(0), adaptive=on, rounds=30) for on in (True, False))
    assert {r.dropout for r in adapted.rounds} == {0.0}
    assert [r.participations and [p.client for p in r.participations] for r in adapted.rounds] == [
        r.participations and [p.client for p in r.participations] for r in plain.rounds
    ]


def test_the_estimate_by_hand(tmp_path):
    """Round 1 is played with the plain table; its willing and lost make the second round's d."""
    notes = play(tmp_path, failing(D), rounds=3)
    willing, lost = float(K), 0.0
    for record, after in zip(notes.rounds, notes.rounds[1:], strict=False):
        failed = sum(p.outcome == "failed" for p in record.participations)
        willing, lost = 0.98 * willing + record.willing, 0.98 * lost + failed
        assert record.trained == record.willing - failed
        assert after.dropout == round(lost / willing, 3) > 0


def silent(kind, round_, client):
    """Clients 0 and 1 answer the roll call and nothing else."""
    return HUNG if client < 2 and kind != HELLO else 0


@pytest.mark.parametrize("wire", WIRES)
def test_who_is_not_waited_for_is_not_lost(wire, tmp_path):
    notes = play(tmp_path, failing(0), wire, rounds=30, enough=K // 2)
    assert sum(len(record.surplus) for record in notes.rounds) > 30
    assert {record.dropout for record in notes.rounds} == {0.0}


def test_an_outage_is_counted_once(tmp_path):
    """Nobody answers in the first round: of eight that were to take part, all were lost."""

    options = RoundOptions(run="r", join_timeout=0.2, ask_timeout=0.05, train_timeout=0.05, evaluate_clients=0)
    strategy = MarkovParticipation.optimal(N, K, M, compensate="dropout", options=options)
    mute = lambda kind, round_, client: 0 if kind == HELLO else HUNG  # noqa: E731
    grid = ScriptedGrid(failing(0), {"runs-dir": str(tmp_path), "seed": 5}, N, script=mute)
    with pytest.raises(NothingTrainedError):
        strategy.start(grid, zeros(), 1)
    assert strategy.policy._dropout.value == round(K / (0.98 * K + K), 3)


@pytest.mark.parametrize("wire", ["poll", "broadcast"])
def test_who_does_not_answer_was_as_willing_as_the_others(wire, tmp_path):
    grid = partial(ScriptedGrid, script=silent)
    short = {"ask_timeout": 0.05, "train_timeout": 0.05, "deterministic": False}
    notes = play(tmp_path, failing(0), wire, rounds=2, grid=grid, **short)
    first, second = notes.rounds
    assert [p.client for p in first.participations if p.outcome == "late"] == [0, 1]
    lost = 2 * first.trained / (N - 2)
    assert second.dropout == round(lost / (0.98 * K + first.trained + lost), 3) > 0


def test_too_much_dropout_is_cut_and_said(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "flwr"):
        notes = play(tmp_path, failing(0.5), n=10, k=8, rounds=40)
    said = [r.getMessage() for r in caplog.records if "can make up for no more than" in r.getMessage()]
    assert len(said) >= 1 and "clients-per-round 8 of 10 clients" in said[0] and "20.0 %" in said[0]
    assert max(r.dropout for r in notes.rounds) == 0.2 and notes.rounds[-1].dropout == 0.2


def test_rate_one_survives_lost_messages(tmp_path):
    rates = [1.0] + [1 / 3] * 9  # more than 1 - d: what is lost of the first cannot be made up for
    notes = play(tmp_path, failing(D), n=10, k=4, rounds=20, rates=rates)
    assert notes.rounds[-1].dropout > 0.1
    again = play(tmp_path, failing(D), n=10, k=4, rounds=24, rates=rates, resume=notes.resume())
    assert all(0 in {part.client for part in record.participations} for record in again.rounds)


ALWAYS = [1.0] + [1 / 3] * 9  # of 4 participations a round 0.3 are out of reach where 30 % are lost


def warnings_of(caplog):
    found = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    return [said for said in found if "of the willing clients are lost" in said]


@pytest.mark.parametrize(
    ("rates", "k", "reached"),
    [(ALWAYS, 4, 1 - D), *(pytest.param("equal", k, min(k / 10, 1 - D), marks=pytest.mark.slow) for k in (4, 9))],
)
def test_unbiased_weights_go_by_what_is_achieved(rates, k, reached, tmp_path):
    """E[ω] = 1/10, of clients that are alike: to within four standard errors of 100 coins."""
    notes = play(tmp_path, failing(D), n=10, k=k, rates=rates, weights="unbiased")
    parts = [p for r in notes.rounds[WARM_UP:] for p in r.participations if p.client == 0 and p.outcome == "trained"]
    seen = np.array([part.weight for part in parts])
    assert len(seen) / (ROUNDS - WARM_UP) == pytest.approx(reached, abs=4 * math.sqrt(0.24 / 100))
    assert seen == pytest.approx(0.1 / reached, rel=0.2)
    assert seen.sum() / (ROUNDS - WARM_UP) == pytest.approx(0.1, abs=4 * 0.1 / reached * math.sqrt(0.24 / 100))


@pytest.mark.slow
def test_who_can_still_be_made_up_for_is(tmp_path):
    """Of 8 of 10 clients a round, half are lost; two that are to take part in 3 of 10 rounds do, by 6 of 10 tries."""
    notes = play(tmp_path, failing(0.5), n=10, k=8, rates=[0.3] * 2 + [0.925] * 8, rounds=240)
    late = [p.client for r in notes.rounds[WARM_UP:] for p in r.participations if p.outcome == "trained"]
    shares = np.bincount(late, minlength=10) / (240 - WARM_UP)
    assert shares[:2].mean() == pytest.approx(0.3, abs=0.05) and shares[2:].mean() == pytest.approx(0.5, abs=0.05)
    assert np.mean([r.dropout for r in notes.rounds[WARM_UP:]]) == pytest.approx(0.5, abs=0.04)


def test_rates_out_of_reach_are_said_once_until_they_are_not(tmp_path, caplog):
    rates = [0.9] * 2 + [2.2 / 8] * 8
    with caplog.at_level(logging.WARNING, "flwr"):
        notes = play(tmp_path, failing(0.5, rounds=[*range(10), *range(60, 99)]), n=10, k=4, rates=rates, rounds=80)
    first, second = warnings_of(caplog)
    beyond = [r.round for r in notes.rounds if r.dropout > 0.1]
    begun = [t for t in beyond if t - 1 not in beyond]
    assert len(beyond) > 20 and [int(said.split()[1][:-1]) for said in (first, second)] == begun
    lost = notes.rounds[begun[1] - 1].dropout
    assert f"{100 * lost:.1f} % of the willing clients are lost, and the rates of 2 clients are" in second
    assert f"above {1 - lost:.3g}, the most that losses allow" in second
    assert f"{2 * (0.9 - 1 + lost):.3g} of 4 participations a round are out of reach" in second


def test_rates_within_reach_are_not_said(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "flwr"):
        play(tmp_path, failing(D), n=10, k=4, rates=[0.5] * 4 + [1 / 3] * 6, rounds=60)
    assert not warnings_of(caplog)


def test_who_takes_part_always_achieves_what_is_left():
    assert achieved(np.array([1.0, 0.7, 0.2]), 0.3).tolist() == [0.7, 0.7, 0.2]
    assert achieved(np.array([0.5]), 1.0).tolist() == [0.001]  # whoever is heard after all weighs no more than finitely


@pytest.mark.parametrize(("n", "k"), [(100, 15), (3, 1), (7, 7), (93, 13), (1000, 1)])
def test_the_largest_dropout_has_a_table(n, k):
    most = largest_dropout(n, k)
    assert most == math.floor(1000 * (1 - k / n) + 1e-9) / 1000
    policy = reissued(MarkovPolicy.optimal(n, k, 4), 0.9999)
    assert policy.dropout == most and policy.interval_mean == pytest.approx(n / k)


def test_the_run_key_makes_the_policy_adapt():
    assert make_strategy(RunConfig.parse({"compensate": "dropout"}), "r").parameters()["adaptive_dropout"] is True


def test_a_resumed_run_keeps_its_estimate(tmp_path):
    whole = play(tmp_path / "whole", failing(D), rounds=12)
    first = play(tmp_path / "parts", failing(D), rounds=7)
    second = play(tmp_path / "parts", failing(D), rounds=12, resume=first.resume())
    told = [(r.round, r.dropout, [(p.client, p.outcome) for p in r.participations]) for r in whole.rounds]
    assert told == [
        (r.round, r.dropout, [(p.client, p.outcome) for p in r.participations]) for r in first.rounds + second.rounds
    ]
