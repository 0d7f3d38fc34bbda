"""Systematic participation and rates of one's own, by real clients on the in-process engine, against the science."""

from functools import partial

import numpy as np
import pytest

from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.rates import size_rates
from aoi_fl.science.selection import Population, ProportionalSelector
from aoi_fl.science.simulate import simulate
from aoi_fl.science.systematic import SystematicPolicy
from aoi_fl.strategies import MarkovParticipation, RandomSelection, SystematicParticipation
from aoi_fl.strategies.round.timer import RoundTimer
from aoi_fl.strategies.selection.selector import ProportionalSelection
from tests import fakes
from tests.fakes import HUNG, ScriptedGrid, ToyApp, zeros

N, K, SEED, ROUNDS = 10, 3, 4, 60
WIRES = ("poll", "broadcast", "reserve")
SIZES = np.array([1, 1, 2, 3, 5, 8, 13, 21, 34, 12])


def app() -> ToyApp:
    def size(i):
        return int(SIZES[i % N])

    return ToyApp(
        lambda array, i, round_: array + np.float32(i + 1), examples=size, declares=lambda i: {"num-examples": size(i)}
    )


def play(make, folder, rounds=ROUNDS, nodes=N, resume=None, arrays=None, present=None, script=None, **options):
    grid = partial(ScriptedGrid, present=present, script=script)
    options |= {"start": arrays or zeros(), "resume": resume, "grid": grid, "seed": SEED}
    notes, _, strategy = fakes.play(make, app(), folder, rounds, nodes, **options)
    return notes, strategy


def systematic(**how):
    return lambda **settings: SystematicParticipation(N, K, **how, **settings)


def simulated(policy, rounds=ROUNDS) -> list[list[int]]:
    population = Population(np.zeros(N, np.int64), SIZES, np.ones(N, np.bool_))
    history = simulate(policy, population, rounds, SEED)
    return [history.selection(t).clients.tolist() for t in range(1, rounds + 1)]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("phases", ["spread", "random"])
@pytest.mark.parametrize("jitter", [0.0, 0.4])
def test_real_clients_take_part_when_the_simulator_says(wire, phases, jitter, tmp_path):
    notes, _ = play(systematic(coordination=wire, phases=phases, jitter=jitter), tmp_path)
    wanted = simulated(SystematicPolicy.equal(N, K, phases, jitter, SEED))
    found = notes.trained()
    # In a round without anybody the server forces one, which the simulator does not; it changes nothing afterwards.
    assert [[] if r.forced else clients for r, clients in zip(notes.rounds, found, strict=True)] == wanted
    if phases == "spread" and not jitter:
        assert {len(clients) for clients in found} == {K}


@pytest.mark.parametrize("policy", ["systematic", "markov"])
def test_rates_by_size_are_kept(policy, tmp_path):
    make = systematic(rates="size")
    if policy == "markov":
        make = lambda **settings: MarkovParticipation.optimal(N, K, coordination="reserve", rates="size", **settings)  # noqa: E731
    notes, strategy = play(make, tmp_path, rounds=300)
    rates, _ = size_rates(SIZES, K)
    np.testing.assert_allclose(strategy.plan.rates, rates)
    counts = np.bincount([c for clients in notes.trained() for c in clients], minlength=N)
    forced = sum(r.forced for r in notes.rounds)
    tolerance = (1.0 if policy == "systematic" else 4 * np.sqrt(300 * 0.25)) + forced
    assert np.all(np.abs(counts - 300 * rates) <= tolerance)


def test_unbiased_weights_act_on_updates(tmp_path):
    """Every client adds i+1 to the model: an unbiased round adds Σ_S (q_i/r_i)(i+1)."""
    notes, strategy = play(systematic(rates="size", weights="unbiased"), tmp_path, rounds=8)
    q, rates = SIZES / SIZES.sum(), strategy.plan.rates
    wanted = sum(q[i] / rates[i] * (i + 1) for clients in notes.trained() for i in clients)
    np.testing.assert_allclose(notes.arrays["w"].numpy(), wanted, rtol=1e-5)
    weights = {p.client: p.weight for r in notes.rounds for p in r.participations}
    assert weights == pytest.approx({i: q[i] / rates[i] for i in weights})


@pytest.mark.parametrize("weights", ["equal", "size"])
def test_repeated_draws_have_the_simulators_weight(weights, tmp_path):
    notes, _ = play(lambda **s: ProportionalSelection(K, weights=weights, **s), tmp_path, rounds=8)
    everyone = Population(np.zeros(N, np.int64), SIZES, np.ones(N, np.bool_))
    history = simulate(ProportionalSelector(K, SEED), everyone, 8, SEED, weighting=weights)
    assert history.draws.max() > 1
    for t, record in enumerate(notes.rounds, 1):
        found, wanted = {p.client: p.weight for p in record.participations}, history.selection(t)
        share = np.array([found[client] for client in wanted.clients.tolist()])
        np.testing.assert_allclose(share / share.sum(), wanted.weights)
        parts = SIZES[wanted.clients] if weights == "size" else np.ones(len(share))
        np.testing.assert_allclose(wanted.weights, parts / parts.sum())


@pytest.mark.parametrize("policy", ["systematic", "markov", "random"])
def test_unbiased_weights_are_shares_of_present_data(policy, tmp_path):
    make = {
        "systematic": partial(SystematicParticipation, N, K),
        "markov": partial(MarkovParticipation.optimal, N, K),
        "random": partial(RandomSelection, K),
    }[policy]
    notes, strategy = play(
        partial(make, weights="unbiased"),
        tmp_path,
        rounds=30,
        present=lambda grid: range(len(grid.notes.rounds) >= 5, N, 1 + (len(grid.notes.rounds) >= 5)),
    )
    rates, q = strategy.plan.rates, np.where(np.arange(N) % 2, SIZES, 0) / SIZES[1::2].sum()
    later = [part for record in notes.rounds[12:] for part in record.participations if not part.forced]
    assert {part.client % 2 for part in later} == {1}
    assert [part.weight for part in later] == pytest.approx([q[part.client] / rates[part.client] for part in later])


def changing(grid):
    """Of all nodes there are the first ``N``; from round 11 on one leaves and one comes in each, to the last."""
    first = min(max(0, len(grid.notes.rounds) - 10), len(grid.nodes) - N)
    return range(first, first + N)


@pytest.mark.parametrize("wire", WIRES)
def test_a_new_share_gives_one_participation_a_stride(wire, tmp_path):
    n, k = 40, 4
    notes, _ = play(
        partial(SystematicParticipation, n, k, coordination=wire),
        tmp_path,
        90,
        nodes=n,
        present=lambda grid: range(1, n, 2) if len(grid.notes.rounds) >= 20 else range(n),
    )
    counts = [len(clients) for clients in notes.trained()]
    late = 1 if wire == "reserve" else 0  # who has reserved a round hears of its new rate in that round
    assert counts[:20] == [k] * 20 and max(counts[20:]) <= (2 + late) * k
    shared = 20 + n // k + 1  # so long after they have left the others have their rates
    assert np.mean(counts[shared:]) == pytest.approx(k, abs=0.3)


@pytest.mark.parametrize("rule", ["equal", "size"])
@pytest.mark.parametrize("policy", [SystematicParticipation, MarkovParticipation.optimal])
def test_who_has_left_keeps_nothing_of_k(policy, rule, tmp_path):
    make = partial(policy, N, K, rates=rule)
    notes, strategy = play(make, tmp_path, rounds=150, nodes=3 * N, present=changing)
    counts = [len(clients) for clients in notes.trained()]
    assert strategy.plan.rates[-N:].sum() == pytest.approx(K)
    assert np.mean(counts[35:]) == pytest.approx(K, abs=0.3)
    if policy is SystematicParticipation and rule == "equal":
        assert max(counts[35:]) - min(counts[35:]) <= 2  # newcomers have taken the places of who left


@pytest.mark.parametrize("came", [slice(0, N - 2), slice(2, N), slice(1, N - 1)])
@pytest.mark.parametrize("policy", [SystematicParticipation, partial(MarkovParticipation.optimal, rates="size")])
def test_who_never_comes_keeps_nothing_of_k_whatever_its_number(policy, came, tmp_path):
    _, strategy = play(
        partial(policy, N, K), tmp_path, rounds=6, present=lambda grid: range(N)[came], min_clients=N - 2
    )
    assert strategy.plan.rates[list(strategy.roster.records)].sum() == pytest.approx(K)


def test_too_few_clients_come_as_often_as_they_can(tmp_path):
    most = 0.3  # of ten rounds seven are lost, and two clients come to no whole participation a round
    policy = MarkovPolicy.optimal(N, K, 10, dropout=1 - most)
    notes, strategy = play(
        partial(MarkovParticipation, policy, rates="size"),
        tmp_path,
        rounds=40,
        present=lambda grid: range(2 if len(grid.notes.rounds) >= 5 else N),
    )
    assert len(notes.rounds) == 40
    assert strategy.plan.rates[:2].tolist() == pytest.approx([most, most])


def test_a_newcomer_without_a_rate_gets_the_mean_rate(tmp_path, caplog):
    given = [0.6, 0.6, *[0.225] * 8]
    _, strategy = play(systematic(rates=given), tmp_path, rounds=20, nodes=N + 1)
    assert strategy.plan.rates.tolist() == pytest.approx([*given, K / N])
    assert caplog.text.count("No rate is given to client-10: it gets the mean of the given rates, 0.3.") == 1
    assert "a row of clients-file, columns name and rate), so that the rates add up to 3" in caplog.text


def test_rates_are_given_by_name(tmp_path):
    names = [f"client-{i}" for i in range(N)]
    given = {name: (0.6 if name in ("client-3", "client-7") else 0.225) for name in reversed(names)}
    _, strategy = play(systematic(rates=given), tmp_path, rounds=2)
    assert strategy.plan.rates.tolist() == pytest.approx([given[name] for name in names])


@pytest.mark.parametrize("policy", [SystematicParticipation, MarkovParticipation.optimal])
@pytest.mark.parametrize("rule", ["size", {f"client-{i}": 0.85 if i == N - 1 else 2.15 / (N - 1) for i in range(N)}])
def test_one_of_the_n_that_comes_late_gets_its_own_rate(policy, rule, tmp_path):
    make = partial(policy, N, K, rates=rule)
    _, here = play(make, tmp_path / "a", rounds=1)
    for rounds in (3, 6):  # before it comes it is taken for a client of mean size, or of the mean rate
        _, strategy = play(
            make,
            tmp_path / str(rounds),
            rounds=rounds,
            min_clients=1,
            present=lambda grid: range(N if len(grid.notes.rounds) >= 3 else N - 1),
        )
        there = strategy.plan.rates
        assert (len(there) == N) == (rounds == 6)
    assert there.tolist() == pytest.approx(here.plan.rates.tolist())


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("policy", [SystematicParticipation, MarkovParticipation.optimal])
def test_a_newcomer_between_rounds_gets_a_rate(policy, wire, tmp_path):
    now = [0.0]

    def make(**settings):
        strategy = policy(N, K, rates="size", coordination=wire, **settings)
        strategy._run.timer = RoundTimer(30.0, lambda: now[0], lambda seconds: now.__setitem__(0, now[0] + seconds))
        return strategy

    _, strategy = play(make, tmp_path, rounds=4, nodes=N + 1, present=lambda grid: range(N + (now[0] > 35)))
    assert len(strategy.plan.rates) == N + 1 and strategy.plan.rates.sum() == pytest.approx(K)


@pytest.mark.parametrize("policy", [SystematicParticipation, MarkovParticipation.optimal])
def test_rates_by_size_leave_out_an_unknown_client(policy, tmp_path, caplog):
    def mute(kind, round_, client):
        return HUNG if client == 0 else 0

    _, strategy = play(partial(policy, N, K, rates="size"), tmp_path, 3, script=mute, ask_timeout=0.2)
    assert strategy.plan.rates.sum() == pytest.approx(K) and "No num-examples declared by client 0: for" in caplog.text


def test_a_resumed_run_is_the_run(tmp_path):
    make = systematic(rates="size", jitter=0.3)
    whole, _ = play(make, tmp_path / "whole", rounds=12)
    cut, _ = play(make, tmp_path / "cut", rounds=5)
    rest, _ = play(make, tmp_path / "cut", rounds=12, resume=cut.resume(), arrays=cut.arrays)
    assert cut.trained() + rest.trained() == whole.trained()
    np.testing.assert_array_equal(rest.arrays["w"].numpy(), whole.arrays["w"].numpy())
