"""A client that always volunteers is taken as often as its rule explains, and an honest one is hardly ever left out."""

import itertools
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import ConfigRecord

from aoi_fl.config.run import RunConfig
from aoi_fl.protocol import ParticipationRequest
from aoi_fl.science.interval_law import StrideLaw
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.strategies import (
    AgeAwareStrategy,
    MarkovParticipation,
    Policy,
    PolicyTraits,
    RandomSelection,
    RoundOptions,
    SystematicParticipation,
)
from aoi_fl.strategies.selection.volunteers import VolunteerBound
from tests.fakes import ToyApp, play
from tests.refusals import refused

N, K, ROUNDS, LIAR = 10, 2, 100, 3


@pytest.mark.parametrize("law", [MarkovPolicy.increasing(100, 10, 5).law(), StrideLaw(0.1, 0.2)])
def test_an_honest_client_is_ever_left_out_with_the_stated_error(law):
    """The intervals are drawn from the law itself; the clients begin in its stationary state."""
    rng, clients, error, rounds = np.random.default_rng(1), 2000, 0.05, 200
    pmf = law.interval_pmf() / law.interval_pmf().sum()
    left = np.cumsum(pmf[::-1])[::-1]
    due = 1 + rng.choice(len(pmf), clients, p=left / left.sum())
    bound, hit, kept = VolunteerBound(), np.zeros(clients, bool), np.zeros(clients, int)
    for round_ in range(1, rounds + 1):
        allowed, willing = bound.allowed(law, clients, round_, error), due == round_
        due[willing] += 1 + rng.choice(len(pmf), willing.sum(), p=pmf)
        hit |= willing & ~allowed
        kept += willing & allowed
        outcomes = [outcome(client) for client in np.flatnonzero(willing & allowed)]
        note(bound, round_, outcomes)
    assert hit.mean() <= error + 3 * np.sqrt(error / clients)
    assert kept.mean() == pytest.approx(rounds / law.interval_mean, rel=0.02)


def note(bound, round_, outcomes):
    bound.note(SimpleNamespace(clients=outcomes, view=SimpleNamespace(round=round_)))


def outcome(client, result="trained"):
    return SimpleNamespace(client=client, result=result, step="train", forced=False)


LATELY = "- " * 100 + "trained " * 300
COURSES = "trained", "trained refused", "trained trained refused", "trained late", "trained failed", LATELY


@pytest.mark.parametrize("course", COURSES)
def test_no_course_of_useless_replies_hides_a_volunteer(course):
    """Its usable updates stay near those of its rule, 0.15 a round, across restarts of the server."""
    bound, law, results = VolunteerBound(), MarkovPolicy.optimal(100, 15, 10).law(), course.split()
    rounds, used = 400, 0
    for round_ in range(1, rounds + 1):
        state, bound = bound.state_dict(), VolunteerBound()
        bound.load_state_dict(state)
        result = results[(round_ - 1) % len(results)]
        taken = result != "-" and bool(bound.allowed(law, 1, round_, 0.001)[0])
        if not taken:
            bound.allowed(law, 1, round_, 0.001)
        note(bound, round_, [outcome(0, result)] * taken)
        used += taken and result == "trained"
    assert used <= 0.25 * rounds


def liar(message, act, what, round_, client):
    """Follow a table of its own, by which it takes part in every round."""
    if client == LIAR and "aoi" in message.content:
        ask = ParticipationRequest.read(message.content["aoi"])
        if ask.table is not None:
            message.content["aoi"] = ConfigRecord(replace(ask, table=(1.0,) * len(ask.table)).write())
    return act()


@pytest.mark.parametrize("coordination", ["poll", "broadcast", "reserve"])
def test_a_client_that_always_volunteers_is_taken_as_its_rule_explains(coordination, tmp_path):
    make = partial(MarkovParticipation.increasing, N, K, coordination=coordination)

    def share(error, rounds):
        notes = play(make, ToyApp(spoil=liar), tmp_path / str(error), rounds, N, volunteer_error=error)
        return np.bincount([*itertools.chain(*notes.trained())], minlength=N) / rounds

    assert share(0.0, ROUNDS // 10)[LIAR] > 0.95
    shares = share(0.001, ROUNDS)
    assert K / N < shares[LIAR] < 1.7 * K / N and np.delete(shares, LIAR).mean() == pytest.approx(K / N, rel=0.15)


class Decides(Policy):
    """An own policy that says that its clients decide, and bounds none of them."""

    traits = PolicyTraits(N, law=MarkovPolicy.optimal(N, K), decides=True)

    def plan(self, view):
        """Nothing is planned before the refusal."""


MARKOV, BY_OWN = partial(MarkovParticipation.optimal, N, K), partial(AgeAwareStrategy, Decides())


@pytest.mark.parametrize(
    ("make", "options"),
    [
        *((make, {}) for make in (partial(RandomSelection, K), partial(MARKOV, rates="size"), BY_OWN)),
        *((partial(make, compensate="availability"), {}) for make in (MARKOV, partial(SystematicParticipation, N, K))),
        *((MARKOV, options) for options in ({"late_rounds": 2}, {"late_rounds": 2, "buffer": K, "at_work": 4})),
    ],
)
def test_the_bound_is_refused_where_a_strategy_cannot_keep_it(make, options):
    MARKOV(options=RoundOptions(volunteer_error=0.001))
    with refused("volunteer-error", 0.001):
        make(options=RoundOptions(volunteer_error=0.001, **options))


def test_run_keys_refuse_the_bound_without_a_common_law():
    with refused("volunteer-error"):
        RunConfig.parse({"volunteer-error": 0.001, "policy": "random"})
