"""Systematic participation and rates of one's own, by real clients on the in-process engine, against the science."""

from functools import partial

import numpy as np
import pytest

from aoi_fl.science.selection import everyone
from aoi_fl.science.simulate import simulate
from aoi_fl.science.systematic import SystematicPolicy
from aoi_fl.strategies import MarkovParticipation, SystematicParticipation
from tests import fakes
from tests.fakes import ScriptedGrid, ToyApp, zeros

N, K, SEED, ROUNDS = 10, 3, 4, 30
WIRES = ("poll", "broadcast", "reserve")
SIZES = np.array([1, 1, 2, 3, 5, 8, 13, 21, 34, 12])


def play(folder, rounds=ROUNDS, nodes=N, present=None, make=SystematicParticipation, shape=(N, K), **how):
    size = lambda client: int(SIZES[client % N])  # noqa: E731
    learn = lambda array, client, round_: array + np.float32(client + 1)  # noqa: E731
    app = ToyApp(learn, examples=size, declares=lambda client: {"num-examples": size(client)})
    grid = partial(ScriptedGrid, present=present)
    more = {"start": zeros(), "grid": grid, "seed": SEED}
    return fakes.play(partial(make, *shape, **how), app, folder, rounds, nodes, **more)


def simulated(policy, rounds):
    """Return the clients that each simulated round selects."""
    history = simulate(policy, everyone(SIZES), rounds, SEED)
    return [history.selection(t).clients.tolist() for t in range(1, rounds + 1)]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("phases", ["spread", "random"])
@pytest.mark.parametrize("jitter", [0.0, 0.4])
def test_real_clients_take_part_when_the_simulator_says(wire, phases, jitter, tmp_path):
    notes = play(tmp_path, coordination=wire, phases=phases, jitter=jitter)
    # In an empty round the server forces a client, which the simulator does not; it changes nothing afterwards.
    found = [[] if record.forced else clients for record, clients in zip(notes.rounds, notes.trained(), strict=True)]
    assert found == simulated(SystematicPolicy.equal(N, K, phases, jitter, SEED), ROUNDS)


@pytest.mark.parametrize("wire", WIRES)
def test_the_others_take_over_the_rates_of_clients_that_left(wire, tmp_path):
    """A client takes part once a stride also while its rate changes."""
    n, k = 20, 4
    present = lambda grid: range(1, n, 2) if len(grid.notes.rounds) >= 20 else range(n)  # noqa: E731
    notes = play(tmp_path, 70, n, present, shape=(n, k), coordination=wire)
    counts = [len(clients) for clients in notes.trained()]
    late = 1 if wire == "reserve" else 0  # a client that has reserved a round gets its new rate in that round
    assert counts[:20] == [k] * 20 and max(counts[20:]) <= (2 + late) * k
    shared = 20 + n // k + 1  # so long after they have left the others have their rates
    assert np.mean(counts[shared:]) == pytest.approx(k, abs=0.3)


def test_newcomers_by_size_take_over_the_rates_of_clients_that_left(tmp_path):
    def present(grid):
        first = min(max(0, len(grid.notes.rounds) - 10), len(grid.nodes) - N)
        return range(first, first + N)

    make = MarkovParticipation.optimal
    notes = play(tmp_path, 80, 3 * N, present, make, rates="size")
    assert notes.strategy._run.round.plan.rates[-N:].sum() == pytest.approx(K)
    assert np.mean([len(clients) for clients in notes.trained()[35:]]) == pytest.approx(K, abs=0.4)


def test_a_newcomer_without_a_rate_gets_the_mean_rate(tmp_path, caplog):
    given = [0.6, 0.6, *[0.225] * 8]
    notes = play(tmp_path, 20, N + 1, rates=given)
    assert notes.strategy._run.round.plan.rates.tolist() == pytest.approx([*given, K / N])
    assert caplog.text.count("No rate is given to client-10") == 1
