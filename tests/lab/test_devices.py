"""Presence and speed of devices, against spells read off by hand and against a plain loop."""

import math

import numpy as np
import pytest

from aoi_fl.lab.simulated_time.devices import DeviceTrace
from tests.fakes import availability

# Client 0 is there at both ends of the period of 100 s, client 1 in its middle, client 2 never, client 3 always.
BY_HAND = availability([[(0, 10), (40, 60), (90, 100)], [(30, 50)], [], [(0, 100)]], 100)


@pytest.mark.parametrize(
    ("when", "here", "until", "returns"),
    [
        (0.0, [1, 0, 0, 1], [10, 0, 0, math.inf], [0, 30, math.inf, 0]),
        (10.0, [0, 0, 0, 1], [10, 10, 10, math.inf], [40, 30, math.inf, 10]),  # an end is outside
        (40.0, [1, 1, 0, 1], [60, 50, 40, math.inf], [40, 40, math.inf, 40]),
        (95.0, [1, 0, 0, 1], [110, 95, 95, math.inf], [95, 130, math.inf, 95]),  # it stays into the next period
        (245.0, [1, 1, 0, 1], [260, 250, 245, math.inf], [245, 245, math.inf, 245]),
    ],
)
def test_presence_is_what_the_spells_say(when, here, until, returns):
    assert BY_HAND.here(when).tolist() == [bool(h) for h in here]
    assert BY_HAND.until(when).tolist() == until
    assert BY_HAND.returns(when).tolist() == returns


@pytest.mark.parametrize("origin", [5.0, 95.0, 245.0])
def test_a_run_that_begins_later_in_a_trace_sees_what_comes_then(origin):
    later = BY_HAND.starting(origin)
    for when in (0.0, 4.0, 33.0, 61.0, 150.0):
        assert later.here(when).tolist() == BY_HAND.here(when + origin).tolist()
        assert later.until(when).tolist() == (BY_HAND.until(when + origin) - origin).tolist()
        assert later.returns(when).tolist() == (BY_HAND.returns(when + origin) - origin).tolist()
    assert later.first(2).here(0.0).tolist() == BY_HAND.first(2).here(origin).tolist()


def test_the_next_arrival_of_a_shifted_trace_is_available():
    rng = np.random.default_rng(2)
    for _ in range(1000):
        edges = np.sort(rng.uniform(0, 7200, 4))
        edges[0] *= rng.integers(2)  # or 0, where the period begins
        spells = [[tuple(edges[:2])], [tuple(edges[2:])]]
        found = availability(spells, 7200.0).starting(3600.0 * int(rng.integers(0, 200)))
        when, here = found.next_present(float(rng.uniform(0, 50_000)))
        assert here.any() and (found.until(when)[here] > when).all()


def test_work_takes_time_and_is_lost_with_its_device():
    trace = DeviceTrace(BY_HAND, np.array([0.1, 0.2, 0.1, 0.1]), "example", np.full(4, 1000.0), np.full(4, 500.0))
    devices = trace.devices(work=1.0)
    who = np.array([0, 1, 2, 3])
    seconds = devices.seconds(who, np.full(4, 50.0), down=2000, up=1000)
    assert seconds.tolist() == [1 + 2 + 2 + 5, 1 + 2 + 2 + 10, 10, 10]
    fates = devices.fates(who, 40.0, seconds)
    assert fates.arrives.tolist() == [50, math.inf, math.inf, 50]
    assert fates.stops.tolist() == [50, 50, 40, 50]
