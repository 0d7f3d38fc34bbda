"""Systematic participation and rates of one's own, by real clients on the in-process engine, against the science."""

from functools import partial

import numpy as np
import pytest

from aoi_fl.science.selection import Population
from aoi_fl.science.simulate import simulate
from aoi_fl.science.systematic import SystematicPolicy
from aoi_fl.strategies import MarkovParticipation, SystematicParticipation
from tests import fakes
from tests.fakes import ScriptedGrid, ToyApp, zeros

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


def test_unbiased_weights_act_on_updates(tmp_path):
    """Every client adds i+1 to the model: an unbiased round adds Σ_S (q_i/r_i)(i+1)."""
    notes, strategy = play(systematic(rates="size", weights="unbiased"), tmp_path, rounds=8)
    q, rates = SIZES / SIZES.sum(), strategy.plan.rates
    wanted = sum(q[i] / rates[i] * (i + 1) for clients in notes.trained() for i in clients)
    np.testing.assert_allclose(notes.arrays["w"].numpy(), wanted, rtol=1e-5)
    weights = {p.client: p.weight for r in notes.rounds for p in r.participations}
    assert weights == pytest.approx({i: q[i] / rates[i] for i in weights})


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
