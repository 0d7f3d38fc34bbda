"""Selection without learning in simulated time, against timelines worked out by hand."""

import numpy as np
import pytest

from aoi_fl.lab.rivals.fedcs import FedCS
from aoi_fl.lab.simulated_time.availability import always
from aoi_fl.lab.simulated_time.devices import DeviceTrace, without_loading
from aoi_fl.lab.simulated_time.round_clock import RoundClock
from aoi_fl.science.selection import OldestAgeSelector, RandomSelector
from aoi_fl.science.simulate import simulate
from tests.fakes import availability
from tests.science.populations import equals

SPELLS = availability([[(0, 100)], [(0, 15), (40, 100)], [(20, 100)], [(0, 100)]], 100.0)


def clock(**how):
    return RoundClock(without_loading(SPELLS, [9.0, 19.0, 9.0, 49.0], "example"), np.ones(4), **how)


def test_a_round_by_hand():
    by_hand, everyone = clock(deadline=30.0), np.ones(4, bool)
    assert by_hand.here(1).tolist() == [True, True, False, True]
    assert np.flatnonzero(by_hand.play(1, everyone)).tolist() == [0]  # 1 leaves, 3 is late
    assert (by_hand.now, by_hand.worked, by_hand.wasted) == (30.0, 10 + 15 + 30, 15 + 30)
    assert np.flatnonzero(by_hand.play(2, everyone)).tolist() == [0, 2]
    assert by_hand.ends == [30.0, 60.0]


def test_a_round_that_waits_for_no_more_than_are_enough_by_hand():
    by_hand, everyone = clock(deadline=60.0, enough=1), np.ones(4, bool)
    assert np.flatnonzero(by_hand.play(1, everyone)).tolist() == [0]
    assert (by_hand.now, by_hand.worked, by_hand.wasted) == (10.0, 30.0, 20.0)  # 1 and 3 have worked for 10 s each
    alike_ = RoundClock(without_loading(always(3)).devices(1.0), np.ones(3), enough=2)
    assert alike_.play(1, np.ones(3, bool)).sum() == 2 and alike_.wasted == alike_.worked / 3


def test_no_round_begins_after_time_is_up_while_nobody_is_there():
    gone = without_loading(availability([[(0, 95)]] * 2, 86400.0), 9.0).devices(1.0)
    gap = RoundClock(gone, np.ones(2), 30.0, until=3600)
    history = simulate(RandomSelector(1, 1), equals(2), 999, 1, clock=gap)
    assert gap.now == pytest.approx(3600, abs=2) and not len(history.selection(history.rounds).clients)


def test_loading_takes_time_and_time_ends_a_play():
    slow = DeviceTrace(always(2), np.array([4.0, 4.0]), "example", np.array([10.0, 5.0]), np.array([2.0, np.inf]))
    made = RoundClock(slow, np.ones(2), model=10.0, until=30.0)
    assert made.seconds.tolist() == [1 + 1 + 4 + 5, 1 + 2 + 4]
    assert simulate(RandomSelector(2, 1), equals(2), 100, 1, clock=made).rounds == 3 and made.now == 33.0


def test_whoever_is_lost_grows_older_and_is_chosen_again():
    history = simulate(OldestAgeSelector(4, 1), equals(4), 3, 1, clock=clock(deadline=30.0))
    assert [history.selection(t).clients.tolist() for t in (1, 2, 3)] == [[0], [0, 2], [0, 1, 2]]
    assert history.selection(3).weights.sum() == pytest.approx(1.0)


def test_who_learns_is_told_how_long_the_late_were_waited_for():
    selector = FedCS(4, 1, 30.0, 4)
    simulate(selector, equals(4), 2, 1, clock=clock(deadline=30.0))  # 1 leaves, 2 is away, 3 is late; learnt in round 2
    assert selector.seen.tried.tolist() == [1, 1, 0, 1] and selector.seen.last.tolist() == [1, 0, 0, 0]
    assert selector.seen.waited.tolist() == [0, 30, 0, 30]
    assert np.array_equal(selector.seen.durations, [10, 30, np.nan, 30], equal_nan=True)
