"""Whatever is lost and played again, a client's participations keep the bounds of its law and its promise."""

import itertools
import math

import numpy as np
import pytest

from aoi_fl.client import deciding
from aoi_fl.client.state import ClientState
from aoi_fl.client.step import Request, State, step
from aoi_fl.protocol import ParticipationRequest
from aoi_fl.science import draws
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.privacy.bounds import bounds
from aoi_fl.science.systematic import SystematicPolicy


def paths():
    """Yield a function that chooses from a sequence, once for each sequence of choices, in depth-first order."""
    taken, widths = [], []
    while True:
        at = itertools.count()

        def choose(options, at=at):
            if (i := next(at)) == len(taken):
                taken.append(0)
                widths.append(len(options))
            return options[taken[i]]

        yield choose
        while taken and taken[-1] + 1 == widths[-1]:
            taken.pop()
            widths.pop()
        if not taken:
            return
        taken[-1] += 1


LAW = MarkovPolicy.optimal(5, 2, 4)  # p = 0, 1/2, 1
PHASES = [0.0, 0.2, 0.4, 0.6, 0.8]
# Uniform numbers with every outcome: the ages 0, 1 and 2 of a newcomer, both sides of a coin, no delay and the longest.
OUTCOMES = {"first-age": [0.1, 0.5, 0.9]}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("jitter", "wire", "separation", "rounds"),
    [
        (None, "poll", None, 5),
        (None, "reserve", 2, 5),
        (0.0, "poll", 2, 4),
        (0.0, "reserve", None, 4),
        (0.4, "poll", None, 3),
        (0.4, "reserve", 2, 4),
    ],
)
def test_a_resume_keeps_b_and_k_on_every_path(monkeypatch, jitter, wire, separation, rounds):
    law, own = LAW, {"table": LAW.probabilities}
    if jitter is not None:
        law, own = SystematicPolicy(np.full(5, 0.4), np.array(PHASES), jitter), {"rate": 0.4, "jitter": jitter}
    least, most = math.inf, 0
    for number, choose in enumerate(paths()):
        drawn = {}

        def draw(seed, round_, purpose, client, choose=choose, drawn=drawn):
            if (round_, purpose) not in drawn:
                drawn[round_, purpose] = choose(OUTCOMES.get(purpose, [0.0, 0.999999]))
            return drawn[round_, purpose]

        monkeypatch.setattr(deciding, "uniform", draw)
        monkeypatch.setattr(draws, "uniform", draw)
        terms = own if jitter is None else own | {"phase": choose(PHASES)}
        terms |= {"wire": wire, "min_separation": separation, "rounds": separation and rounds}
        broken, undone = choose(range(rounds + 1)), choose([False, True])
        state, updates = State(ClientState(1)), []
        for t in range(1, rounds + 1):
            request = Request(ParticipationRequest("r", t, **terms), number=number, trains=True)
            for again in range(1 + (t == broken)):  # what came of it is lost, and it is played again
                before = state
                state, answer = step(before, request)
                if answer.takes_part:
                    state = step(state, request, answer)[0]
                    assert t not in updates or separation is None  # the promise is not in the state that came back
                    updates.append(t)
                if undone and t == broken and not again:
                    state = State(before.own, state.promise)
        least = min([least, *(b - a for a, b in itertools.pairwise(sorted({*updates})))])
        most = max(most, len({*updates}))
    found, promised = bounds(law, rounds), separation or 1
    assert least == max(found.min_separation, promised)
    assert most == min(found.max_participations, -(-rounds // promised))
