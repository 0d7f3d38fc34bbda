"""The policy interface: what a strategy asks of a policy, and what it refuses."""

from functools import partial

import numpy as np

from aoi_fl.science.selection import evenly
from aoi_fl.strategies import (
    AgeAwareStrategy,
    MarkovParticipation,
    Plan,
    Policy,
    PolicyTraits,
    RoundOptions,
    SelectorPolicy,
)
from tests.fakes import honest_app, play


class First(Policy):
    """Sends the model to the first clients; it ends the run after some rounds, and counts what it observes."""

    traits = PolicyTraits(4)

    def __init__(self, ends=99):
        self.ends, self.seen = ends, []

    def plan(self, view):
        return Plan(np.array([0, 1]), np.ones(2))

    def observe(self, outcome):
        self.seen.append([(one.client, one.result) for one in outcome.clients])
        return "enough is known" if outcome.view.round >= self.ends else None


def test_policy_ends_the_run_and_a_resumed_run_too(tmp_path):
    policy = First(ends=2)
    notes = play(partial(AgeAwareStrategy, policy), honest_app(), tmp_path, rounds=9)
    assert notes.trained() == [[0, 1]] * 2 and notes.strategy.complete == "enough is known"
    assert policy.seen == [[(0, "trained"), (1, "trained")]] * 2
    make = partial(AgeAwareStrategy, First(ends=2))
    again = play(make, honest_app(), tmp_path, rounds=9, resume=notes.resume())
    assert not again.rounds and again.strategy.complete == "enough is known"


class Dice:
    """A selector that draws from a generator of its own, and says nothing of a state."""

    def __init__(self):
        self.drawn = np.random.default_rng(1)

    def select(self, round_, population):
        return evenly(np.sort(self.drawn.choice(len(population.ages), 2, replace=False)))


def test_a_selector_that_draws_goes_on_after_a_resume(tmp_path):
    make = lambda **settings: AgeAwareStrategy(SelectorPolicy(Dice(), 2), **settings)  # noqa: E731
    whole = play(make, honest_app(), tmp_path / "whole", rounds=8)
    first = play(make, honest_app(), tmp_path / "cut", rounds=4)
    rest = play(make, honest_app(), tmp_path / "cut", rounds=8, resume=first.resume())
    assert first.trained() + rest.trained() == whole.trained()


def test_policy_observes_a_round_once_where_a_client_is_forced(tmp_path):
    """In broadcast all decline, and one of them then trains: one outcome, in which it is forced."""
    outcomes = []
    strategy = MarkovParticipation.optimal(4, 1, 30, coordination="broadcast", options=RoundOptions(seed=3))
    policy, observe = strategy.policy, strategy.policy.observe
    policy.observe = lambda outcome: outcomes.append(outcome) or observe(outcome)
    notes = play(partial(AgeAwareStrategy, policy), honest_app(), tmp_path, rounds=12)
    forced = [record.round for record in notes.rounds if record.forced]
    assert forced and [outcome.view.round for outcome in outcomes] == list(range(1, 13))
    for outcome in outcomes:
        assert any(one.forced for one in outcome.clients) == (outcome.view.round in forced)
