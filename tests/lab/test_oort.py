"""Oort against its Algorithm 1 written out one client at a time, hand-worked numbers, and enumeration."""

import math
from dataclasses import replace

import numpy as np
import pytest

from aoi_fl.lab.rivals.oort import OortSelector, OortSettings
from aoi_fl.lab.simulated_time.availability import always
from aoi_fl.science.selection import Foresight
from tests.lab.reports import report
from tests.science.populations import population

NONE_NEW = OortSettings(exploring=0.0, least_exploring=0.0)


def alone(round_, sizes, losses, seconds, last, settings):
    """Return Util(i) for each client by the paper's lines 10-14, in plain Python."""
    worth = [b * loss for b, loss in zip(sizes, losses, strict=True)]
    ceiling = sorted(worth)[min(int(len(worth) * settings.clip), len(worth) - 1)]
    worth = [min(u, ceiling) for u in worth]
    floor = 0.999 * min(worth)
    preferred = sorted(seconds)[min(int(len(seconds) * settings.pace), len(seconds) - 1)]
    found = []
    for u, t, at in zip(worth, seconds, last, strict=True):
        util = (u - floor) / (max(worth) - floor) + math.sqrt(0.1 * math.log(round_) / at)
        if preferred < t:
            util *= (preferred / t) ** settings.penalty
        found.append(util)
    return found


def test_utilities_are_those_of_the_paper():
    rng = np.random.default_rng(3)
    sizes, losses, seconds = rng.integers(1, 90, 40), rng.lognormal(0, 1, 40), rng.lognormal(2, 1, 40)
    selector, everybody = OortSelector(5, 1), population(sizes)
    for round_ in range(1, 5):
        who = np.arange(10 * (round_ - 1), 10 * round_)
        selector.learn(round_, everybody, report(who, losses[who], seconds[who]))
    last = 1 + np.arange(40) // 10
    found = selector.utilities(7, np.arange(40), sizes)
    assert found == pytest.approx(alone(7, sizes.tolist(), losses, seconds, last, OortSettings()), rel=1e-12)


def test_who_is_unknown_costs_nothing_and_is_worth_the_mean():
    selector, everybody = OortSelector(1, 1), population([10, 10, 20])
    selector.learn(1, everybody, report(range(3), [1.0, 3.0, math.nan]))
    assert selector.worth(np.arange(3), everybody.sizes).tolist() == [10, 30, 40]
    assert selector.slowness(np.array([1.0, math.nan])).tolist() == [1, 1]


def test_who_missed_the_end_of_its_round_was_tried_and_is_slow():
    selector, everybody = OortSelector(1, 1, OortSettings(pace=0.0)), population([10, 10, 10])
    selector.learn(1, everybody, report([0], [1], [2], late=[1], waited=[8]))
    assert selector.slowness(selector.seen.durations).tolist() == [1, 1 / 16, 1]
    assert selector.utilities(1, np.arange(2), everybody.sizes).tolist() == [1, 1 / 16]  # as much to teach as the mean
    assert selector.select(1, everybody).clients.tolist() == [2]  # the only one not tried yet


def test_exploitation_draws_among_utilities_within_the_cut_off():
    settings = replace(NONE_NEW, cut_off=0.5, clip=1.0)
    selector, everybody = OortSelector(2, 5, settings), population([1] * 5)
    selector.learn(1, everybody, report(range(5), [8.0, 6.0, 4.0, 3.0, 0.5], [1.0] * 5))
    utilities = selector.utilities(50, np.arange(5), everybody.sizes)
    assert (utilities >= 0.5 * np.sort(utilities)[-2]).tolist() == [True] * 4 + [False]
    often = np.zeros(5)
    for selector.seed in range(100):
        often[selector.select(50, everybody).clients] += 1
    assert often[0] > often[3] > 0 == often[4]


def test_exploration_fades_and_prefers_fast_clients():
    everybody, selector = population([3] * 100), OortSelector(10, 2)
    selector.learn(1, everybody, report(range(50), [1.0] * 50, [1.0] * 50))
    for round_, new in ((1, 9), (20, 6), (200, 2)):  # 10ε
        assert (selector.select(round_, everybody).clients >= 50).sum() == new
    seconds = np.where(np.arange(100) < 75, 10.0, 1000.0)
    foreseen = replace(everybody, foresight=Foresight(always(100).until, seconds, np.zeros(100)))
    fast = [np.isin(selector.select(1, replace(p)).clients, np.arange(50, 75)).sum() for p in (everybody, foreseen)]
    assert fast[0] <= 8 and fast[1] == 9
    assert len(OortSelector(10, 2).select(1, everybody).clients) == 10  # nobody was tried yet: all are new


def test_the_pacer_prefers_more_seconds_once_utility_falls():
    settings = OortSettings(window=2, pace=0.3, pacing=0.2)
    selector, everybody = OortSelector(1, 1, settings), population([10])
    paces = []
    for round_, loss in enumerate([5.0, 5.0, 6.0, 6.0, 1.0, 1.0, 1.0, 1.0, 0.1, 0.1, 0.01, 0.01], 1):
        selector.learn(round_, everybody, report([0], [loss], [1.0]))
        paces.append(round(selector.pace, 6))
    assert paces == [0.3] * 5 + [0.5] * 2 + [0.5] * 2 + [0.7] * 2 + [0.9]
