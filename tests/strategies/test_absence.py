"""Clients that come and go: each achieves its target as far as it is available."""

from types import SimpleNamespace

import numpy as np
import pytest

from aoi_fl.science import draws
from aoi_fl.science.participation import MarkovRule, SystematicRule
from aoi_fl.science.selection import Population
from aoi_fl.science.simulate import simulate
from aoi_fl.strategies import MarkovParticipation, SystematicParticipation
from aoi_fl.strategies.policy import ClientOutcome, Plan, RoundOutcome
from aoi_fl.strategies.selection.absence import Absence
from tests import fakes
from tests.fakes import ScriptedGrid, ToyApp, zeros

N, K, ROUNDS = 10, 2, 60
SHARES = np.array([1.0] * 5 + [0.4] * 4 + [0.1])


def available(round_):
    return draws.uniforms(9, round_, "there", N) < (SHARES if round_ > 1 else 1.0)  # all join in the first round


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda **s: MarkovParticipation.optimal(N, K, 10, compensate="availability", **s), MarkovRule),
        (lambda **s: SystematicParticipation(N, K, compensate="availability", **s), SystematicRule),
    ],
    ids=["markov", "systematic"],
)
def test_the_simulator_predicts_clients_that_come_and_go(make, rule, tmp_path):
    """The simulator does not know forced participations: up to the first one they agree."""

    def grid(*arguments):
        return ScriptedGrid(*arguments, present=lambda grid: np.flatnonzero(available(len(grid.notes.rounds) + 1)))

    notes, *_ = fakes.play(make, ToyApp(), tmp_path, ROUNDS, N, grid=grid, start=zeros(1), seed=5)
    policy = rule.learning(np.full(N, K / N), *([5] if rule is SystematicRule else []))
    population = Population(np.zeros(N, np.int64), np.ones(N, np.int64), np.ones(N, bool))
    history = simulate(policy, population, ROUNDS, 5, availability=available)
    until = next((record.round for record in notes.rounds if record.forced), ROUNDS + 1)
    assert until > 5
    assert notes.trained()[: until - 1] == [history.selection(t).clients.tolist() for t in range(1, until)]


@pytest.mark.parametrize("result", ["late", "failed", "refused", "declined"])
def test_a_client_without_an_update_counts_as_absent(result):
    view = SimpleNamespace(
        free=np.ones(3, np.bool_), resting=np.zeros(3, np.bool_), known=np.ones(3, np.bool_), second_attempt=False
    )
    outcome = [ClientOutcome(1, "train", False, False, result)]
    absence = Absence()
    absence.note(RoundOutcome(view, Plan(np.zeros(0, np.int64), np.zeros(0)), outcome, 0), np.zeros(3, np.bool_))
    assert absence.presence.share.tolist() == [1.0, 0.5, 1.0]
