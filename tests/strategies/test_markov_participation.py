"""Clients that decide, against the simulator."""

from functools import partial

import numpy as np

from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.selection import Population
from aoi_fl.science.simulate import simulate
from aoi_fl.strategies import MarkovParticipation
from tests import fakes
from tests.fakes import ToyApp, sines, zeros

N, ROUNDS = 12, 25
POLICY = MarkovPolicy.increasing(N, 4, 5)  # the optimal one would be periodic here: 4 divides 12


def size(client):
    return 10 + client


def play(coordination, folder, seed):
    """Return the clients that each round trains, and the model."""
    app = ToyApp(sines, examples=size, declares=lambda client: {"num-examples": size(client)})
    make = partial(MarkovParticipation, POLICY, coordination=coordination)
    notes, result, _ = fakes.play(make, app, folder, ROUNDS, N, start=zeros(5), seed=seed)
    return notes.trained(), result.arrays["w"].numpy()


def predicted(seed):
    population = Population(np.zeros(N, np.int64), size(np.arange(N)), np.ones(N, bool))
    history = simulate(POLICY, population, ROUNDS, seed)
    return [history.selection(t).clients.tolist() for t in range(1, ROUNDS + 1)]


def test_the_simulator_predicts_the_federation(tmp_path):
    seed = next(s for s in range(1000) if all(predicted(s)))  # no round is empty, so that no client is forced
    poll, broadcast, reserve = (play(wire, tmp_path / wire, seed) for wire in ("poll", "broadcast", "reserve"))
    assert poll[0] == broadcast[0] == predicted(seed) != reserve[0]  # the same law from other draws
    assert poll[1].tobytes() == broadcast[1].tobytes() and poll[1].any()
