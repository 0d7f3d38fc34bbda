"""FedCS against Algorithm 3 as printed, and hand-worked schedules."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from aoi_fl.lab.rivals.fedcs import FedCS, schedule
from aoi_fl.lab.simulated_time.availability import always
from aoi_fl.science.selection import Foresight
from tests.lab.reports import report
from tests.science import populations

seconds = st.integers(0, 40).map(lambda quarter: quarter / 4)


def population(n, available=None):
    return populations.population(np.arange(1, n + 1), available)


def as_printed(updates, uploads, deadline):
    """Return whom Algorithm 3 chooses: all candidates are tried, who does not fit is skipped."""
    left, chosen, theta = list(range(len(updates))), [], 0.0
    while left:
        best = max(left, key=lambda k: -(uploads[k] + max(0.0, updates[k] - theta)))
        left.remove(best)
        after = theta + uploads[best] + max(0.0, updates[best] - theta)
        if after <= deadline:
            theta = after
            chosen.append(best)
    return chosen


@given(st.lists(st.tuples(seconds, seconds), max_size=12), st.integers(1, 120).map(lambda quarter: quarter / 4))
@settings(max_examples=200, deadline=None)
def test_the_schedule_is_the_papers(times, deadline):
    updates, uploads = np.array([t[0] for t in times]), np.array([t[1] for t in times])
    assert schedule(updates, uploads, deadline, len(times)).tolist() == as_printed(updates, uploads, deadline)


def test_what_is_foreseen_decides():
    foreseen = Foresight(always(4).until, np.array([4.0, 3.0, 6.0, 10.0]), np.zeros(4))
    selection = FedCS(4, 1, 6.0, 4).select(1, replace(population(4), foresight=foreseen))
    assert selection.clients.tolist() == [0, 1, 2] and selection.weights.tolist() == [1 / 6, 2 / 6, 3 / 6]
    foreseen = replace(foreseen, uploads=np.full(4, 2.0))  # one after another: done at 3, 5 and, too late, at 7
    assert FedCS(4, 1, 6.0, 4).select(1, replace(population(4), foresight=foreseen)).clients.tolist() == [0, 1]


def test_what_was_seen_decides_where_nobody_foresees():
    selector, everybody = FedCS(2, 1, 5.0, 5), population(5)
    assert len(selector.select(1, everybody).clients) == 2
    selector.learn(1, everybody, report(range(3), seconds=[9, 4, 2]))
    assert selector.expected(everybody).tolist() == [9, 4, 2, 4, 4]
    assert 2 in selector.select(2, everybody).clients
    assert selector.select(2, population(5, [True, False, False, False, False])).clients.size == 0  # too slow


def test_silent_clients_come_last_and_stay_members():
    selector, everybody = FedCS(2, 1, 5.0, 4), population(4)
    selector.learn(1, everybody, report(range(2), seconds=[1, 4], late=[2, 3], waited=[5, 9]))
    assert selector.expected(everybody).tolist() == [1, 4, 5, 5]
    assert selector.select(2, everybody).clients.tolist() == [0, 1]
    assert selector.select(2, population(4, [False, True, False, True])).clients.tolist() == [1, 3]
    selector.learn(2, everybody, report([3], seconds=[2]))
    assert selector.expected(everybody).tolist() == [1, 4, 5, 2]
    selector.learn(3, everybody, report(late=[0], waited=[3]))
    assert selector.expected(everybody).tolist() == [3, 4, 5, 2]
