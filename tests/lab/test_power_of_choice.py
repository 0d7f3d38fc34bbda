"""Power-of-Choice against enumeration, a hand-worked example and a full sort."""

from itertools import permutations

import numpy as np
import pytest

from aoi_fl.lab.rivals.power_of_choice import PowerOfChoice
from tests.lab.reports import report
from tests.science.populations import population


def enumerated(weights, count):
    """Return P(i among ``count`` draws one after another, each in proportion to what is left), over all orders."""
    chance = np.zeros(len(weights))
    for order in permutations(range(len(weights)), count):
        left, p = sum(weights), 1.0
        for i in order:
            p *= weights[i] / left
            left -= weights[i]
        chance[list(order)] += p
    return chance


def test_candidates_are_drawn_one_after_another_by_size():
    sizes, rounds = [1, 2, 3, 10, 24], 8000
    selector = PowerOfChoice(1, 7, 3)
    often = np.zeros(5)
    for round_ in range(1, rounds + 1):
        often[selector.draw(round_, population(sizes))] += 1
    wanted = enumerated(sizes, 3)
    assert np.abs(often / rounds - wanted).max() < 4 * np.sqrt(0.25 / rounds)
    assert wanted.sum() == pytest.approx(3)


def test_the_highest_losses_among_the_candidates_by_hand():
    selector = PowerOfChoice(2, 1, 5)
    selector.learn(1, population([5] * 5), report(range(4), [0.5, 2.0, 0.1, 1.0]))
    everybody = population([5] * 5)
    assert selector.select(2, everybody).clients.tolist() == [1, 4]  # 4 has said nothing yet: it is tried
    away = population([5] * 5, [True, False, True, True, False])
    chosen = selector.select(2, away)
    assert chosen.clients.tolist() == [0, 3] and chosen.weights.tolist() == [0.5, 0.5]


def test_asked_losses_decide_and_the_silent_are_passed_over():
    told = np.array([3.0, np.nan, 1.0, 2.0])
    selector = PowerOfChoice(2, 1, 4, ask=lambda round_, who: told[who])
    assert selector.select(1, population([1] * 4)).clients.tolist() == [0, 3]
    assert (
        PowerOfChoice(1, 1, 4, ask=lambda round_, who: told[who] * np.nan).select(1, population([1] * 4)).clients.size
        == 0
    )


def test_who_trains_and_tells_no_loss_has_the_mean_of_those_told():
    selector, everybody = PowerOfChoice(2, 1, 5), population([5] * 5)
    selector.learn(1, everybody, report(range(4), [4.0, np.nan, 1.0, 3.0]))
    assert selector.reported(5).tolist() == [4, 8 / 3, 1, 3, np.inf]
    assert [selector.select(t, everybody).clients.tolist() for t in range(2, 5)] == [[0, 4]] * 3
