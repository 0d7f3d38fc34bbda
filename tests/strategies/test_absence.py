"""Clients that come and go, played by real clients: what each achieves is its target as far as it is there."""

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


def there(round_):
    return draws.uniforms(9, round_, "there", N) < (SHARES if round_ > 1 else 1.0)  # all come to the roll call


def play(folder, make, rounds=ROUNDS, resume=None, node=None):
    def coming(grid):
        following = max([0 if resume is None else resume.next_round - 1, *(r.round for r in grid.notes.rounds)]) + 1
        return np.flatnonzero(there(following))

    def grid(*arguments):
        made = ScriptedGrid(*arguments, present=coming)
        for context in made._contexts.values():
            context.node_config |= node or {}
        return made

    notes, _, strategy = fakes.play(make, ToyApp(), folder, rounds, N, grid=grid, start=zeros(1), resume=resume, seed=5)
    return notes, strategy


def trained(record):
    return sorted(p.client for p in record.participations if p.outcome == "trained" and not p.forced)


MAKERS = {
    "markov": lambda **s: MarkovParticipation.optimal(N, K, 10, compensate="availability", **s),
    "markov-size": lambda **s: MarkovParticipation.optimal(N, K, 10, rates=[0.2] * N, compensate="availability", **s),
    "reserve": lambda **s: MarkovParticipation.optimal(
        N, K, 10, compensate="availability", coordination="reserve", **s
    ),
    "systematic": lambda **s: SystematicParticipation(N, K, compensate="availability", **s),
}


@pytest.mark.parametrize(("name", "policy"), [("markov", MarkovRule), ("systematic", SystematicRule)])
def test_real_clients_take_part_when_the_simulator_says(name, policy, tmp_path):
    """Whoever is forced counts as having taken part, which the simulator does not know: up to there they agree."""
    notes, _ = play(tmp_path, MAKERS[name])
    made = policy.learning(np.full(N, K / N), *([5] if policy is SystematicRule else []))
    population = Population(np.zeros(N, np.int64), np.ones(N, np.int64), np.ones(N, bool))
    history = simulate(made, population, ROUNDS, 5, availability=there)
    until = next((r.round for r in notes.rounds if r.forced), ROUNDS + 1)
    assert until > 5
    for record in notes.rounds[: until - 1]:
        assert trained(record) == history.selection(record.round).clients.tolist()


def outcome_of(*parts):
    """Return a round of three connected clients, of which some had these results."""
    view = SimpleNamespace(
        free=np.ones(3, np.bool_), resting=np.zeros(3, np.bool_), known=np.ones(3, np.bool_), second_attempt=False
    )
    results = [
        ClientOutcome(client, "train", False, False, result)
        for client, result in zip(parts[::2], parts[1::2], strict=True)
    ]
    return RoundOutcome(view, Plan(np.zeros(0, np.int64), np.zeros(0)), results, 0)


@pytest.mark.parametrize("outcome", ["late", "failed", "refused", "declined"])
def test_whoever_takes_no_part_was_away_for_whatever_reason(outcome):
    absence = Absence()
    absence.note(outcome_of(1, outcome), np.zeros(3, np.bool_))
    assert absence.presence.share.tolist() == [1.0, 0.5, 1.0]
