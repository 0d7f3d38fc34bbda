"""REFL: who is least likely to be there next is chosen, by what is foreseen or by what was seen."""

from dataclasses import replace

import numpy as np

from aoi_fl.lab.rivals.refl import Refl
from aoi_fl.science.selection import Foresight
from aoi_fl.strategies.aggregation.mean import late_weights
from tests.fakes import availability
from tests.lab.reports import report
from tests.science import populations


def population(n, available=None):
    return populations.population(np.full(n, 5), available)


def test_absence_is_forecast_one_to_two_rounds_ahead():
    spells = [[(0, 100)], [(0, 19)], [(0, 31)], [(0, 5), (19, 50)], [(0, 5), (22, 50)]]
    foreseen = Foresight(availability(spells, 200.0).until, np.full(5, 10.0), np.zeros(5))
    now = replace(population(5), now=10.0, foresight=foreseen)
    selector = Refl(2, 1)
    assert selector.forecast(now).tolist() == [1, 0, 1, 1, 0]  # there from 20 to 30, all the time?
    assert selector.select(1, now).clients.tolist() == [1, 4]
    assert selector.select(1, now).weights.tolist() == [0.5, 0.5]


def test_the_mean_length_of_a_round():
    foreseen = Foresight(availability([[(0, 500)]], 1000.0).until, np.array([40.0]), np.zeros(1))
    selector, at = Refl(1, 1), lambda now: replace(population(1), now=now, foresight=foreseen)
    lengths = []
    for round_, now in enumerate((0.0, 20.0, 60.0), 1):
        lengths.append(selector._mean_length(at(now)))
        selector.learn(round_, at(now), report())
    assert lengths == [40, 0.75 * 20 + 0.25 * 40, 0.75 * 40 + 0.25 * 25]


def test_learned_absence_and_rest():
    selector = Refl(2, 1, rest=2)
    for round_, here in enumerate(([1, 1, 1, 1], [1, 0, 1, 0], [1, 1, 1, 1], [1, 0, 1, 1], [1, 1, 1, 1]), 1):
        selector.learn(round_, population(4, np.array(here, bool)), report([0] if round_ == 1 else []))
    assert selector.select(6, population(4)).clients.tolist() == [1, 3]
    selector.learn(6, population(4), report([1, 3]))
    assert selector.select(7, population(4)).clients.tolist() == [0, 2]  # who has just trained rests
    assert selector.select(8, population(4, [False, True, False, True])).clients.tolist() == [1, 3]  # nobody else
    assert selector.select(9, population(4)).clients.tolist() == [1, 3]


def test_who_is_busy_or_rests_is_there_all_the_same():
    refl = Refl(1, 1)
    for round_, free in enumerate(([True, False], [False, True]), 1):
        seen = replace(population(2, free), connected=np.ones(2, bool))
        refl.learn(round_, seen, report())
    assert refl.forecast(seen).tolist() == [1.0, 1.0]
    refl.learn(3, replace(seen, connected=None), report())
    assert refl.forecast(seen)[0] < 1.0 == refl.forecast(seen)[1]


def test_late_updates_weigh_as_in_the_paper():
    """Against Λ as Section 4.2 has it, from updates themselves: how far the mean moves, over its length, squared."""
    random = np.random.default_rng(0)
    fresh, late, rounds_late = random.normal(size=(5, 7)), random.normal(size=(3, 7)), np.array([1, 2, 5])
    mean = fresh.mean(0)
    moved = [(((mean - (update + 5 * mean) / 6) ** 2).sum() / (mean**2).sum()) for update in late]
    wanted = [0.65 / (t + 1) + 0.35 * (1 - np.exp(-m / max(moved))) for t, m in zip(rounds_late, moved, strict=True)]
    np.testing.assert_allclose(late_weights(rounds_late, np.linalg.norm(late - mean, axis=1)), wanted)
