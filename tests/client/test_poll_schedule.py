"""A client that knows its next round sleeps until then, and looks for messages as seldom as it may."""

import math
import time

import pytest

from aoi_fl import protocol
from aoi_fl.client import poll_schedule
from aoi_fl.client.poll_schedule import ASLEEP, NextMessage, PollSchedule, foretold, laid_down
from aoi_fl.flower.messages import context
from aoi_fl.protocol import ParticipationReply, ParticipationRequest
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.strategies.round.timer import RoundTimer, between_looks
from tests.fakes import Counting, request

TABLE = MarkovPolicy.optimal(12, 2, 20).probabilities


def told(nap, apart=ASLEEP):
    """Return the schedule of a client that has been told the time of its next message."""
    client = PollSchedule(0.0)
    client.answered(0.0, NextMessage(nap, apart))
    return client


def test_the_longest_nap_needs_few_heartbeats():
    nap = 10 * 3600.0
    client = told(nap)
    now, beats = 0.0, 0
    while now < nap:
        interval, wait = client.heartbeat(now)
        assert interval <= poll_schedule.LONGEST_HEARTBEAT and wait < 2 * interval
        now, beats = now + wait, beats + 1
    assert beats <= nap / poll_schedule.LONGEST_HEARTBEAT
    assert client.wait(nap - 100) == 100 and client.wait(nap + 1) <= poll_schedule.LONGEST_LOOK


def test_a_sleeping_client_looks_for_other_runs_at_heartbeats():
    client = told(10 * 3600.0)
    assert client.wait(100.0) == poll_schedule.LONGEST_SILENCE == client.heartbeat(100.0)[1]
    assert told(1000.0).heartbeat(0.0)[0] == (1000 + 30) / 2  # a SuperLink waits for two intervals
    client.answered(5000.0)  # by an app that tells nothing
    assert client.wait(5000.0) == poll_schedule.SHORTEST_LOOK and client.heartbeat(5000.0)[0] == poll_schedule.HEARTBEAT


@pytest.mark.parametrize(
    ("sent", "expected"), [(-20.0, 20.0), (3600.0, 0.0), (-3600.0, 300.0), (-math.inf, 300.0), (math.nan, 0.0)]
)
def test_a_message_has_waited_some_minutes_at_most(sent, expected):
    assert poll_schedule.waited(time.time() + sent) == pytest.approx(expected, abs=1.0)


@pytest.mark.parametrize("waited", [0.0, 25.0])
def test_a_client_that_polls_late_does_not_oversleep(waited, tmp_path, monkeypatch):
    monkeypatch.setenv(poll_schedule.NAP_FILE, str(tmp_path / "nap"))
    ask = ParticipationRequest("r", 1, protocol.RESERVE, TABLE, pace=600.0)
    message = request(protocol.PARTICIPATE, ask)
    message.metadata.created_at = time.time() - waited
    node = {"partition-id": 1, "seed": 4, "sleep": True, "state-dir": str(tmp_path)}
    said = ParticipationReply.read(Counting()(message, context(1, 7, {}, node)).content[protocol.AOI])
    following, _ = laid_down(tmp_path / "nap")
    expected = 0.999 * 600 * (said.next_round - 1) - 3 - waited
    assert said.next_round > 1 and following.nap == pytest.approx(expected, abs=1.0)


def test_a_client_polls_as_seldom_as_the_superlink_is_slow():
    client = PollSchedule(0.0)
    assert client.wait(0.1, took=0.05) == poll_schedule.LONGEST_LOOK
    assert [client.wait(0.1, took=0.5) for _ in range(4)] == [6, 12, 24, 25]  # there must be many
    assert [client.wait(0.1, took=60.0) for _ in range(2)] == [50, 60] and client.heartbeat(0.1)[0] == 120
    client = told(None, 7.0)
    assert [client.wait(0.0, took=took) for took in (0.3, 0.5, 2.0, 60.0, 60.0, 0.0)] == [7, 10, 20, 40, 60, 7]
    client = told(None, 70.0)
    interval, beat = client.heartbeat(0.0)
    assert client.wait(0.0) == 70 and interval == 140 and 94 < beat < 122  # a SuperLink of many is busy enough


AWAKE, SLEEPS = {"sleep": False}, {"sleep": True}
PACE = {"pace": 60.0}


@pytest.mark.parametrize(
    ("terms", "next_round", "node", "nap", "apart"),
    [
        ({"looks": 7.0}, 12, AWAKE, None, 2),  # there is a round before its own
        ({"looks": 70.0}, 99, AWAKE, None, 70),
        ({"looks": 7.0} | PACE, 12, AWAKE, 0.999 * 120 - 3, 7),
        (PACE, 12, SLEEPS, 0.999 * 120 - 3, ASLEEP),
        (PACE | {"elapsed": 45.0}, 12, SLEEPS, 0.999 * 75 - 3, ASLEEP),
        (PACE, 10, SLEEPS, None, 0),  # it takes part in this one
        ({"pace": 2.0}, 12, SLEEPS, 0.999 * 4 - 1, 0),  # a quarter of the time early, and not worth while
    ],
)
def test_the_nap_until_a_reserved_round(terms, next_round, node, nap, apart):
    ask = ParticipationRequest("r", 10, protocol.RESERVE, TABLE, **terms)
    following = foretold(ask, ParticipationReply("a", False, 3, next_round), node)
    assert (following.nap, following.apart) == (pytest.approx(nap), apart)


@pytest.mark.parametrize(
    ("looks", "takes_part", "trained", "apart"),
    [
        (7.0, False, False, 7),
        (7.0, True, False, 0),
        (7.0, True, True, 7),
        (70.0, None, False, 10),
        (None, None, False, 0),
    ],
)
def test_the_next_look_of_a_client_without_a_reservation(looks, takes_part, trained, apart):
    """The model follows a yes at once, and a client that has introduced itself will be asked soon."""
    answer = None if takes_part is None else ParticipationReply("a", takes_part, 3)
    ask = ParticipationRequest("r", 10, protocol.POLL, looks=looks)
    assert foretold(ask, answer, {}, trained) == NextMessage(None, apart)


def test_an_awake_client_looks_at_the_given_rate_until_its_round():
    client = told(due := 117.0, 7.0)
    assert client.wait(0.0) == 7 and client.wait(due - 2) == pytest.approx(2) and client.wait(due) < 1
    assert client.heartbeat(0.0)[0] == poll_schedule.HEARTBEAT
    assert told(None, 0.0).wait(0.0) == poll_schedule.SHORTEST_LOOK


def test_clients_are_told_how_often_to_look_where_they_are_many():
    assert [between_looks(n) for n in (4, 25, 200, 10_000)] == [None, 25 / 15, 200 / 15, 10_000 / 15]
    latencies = (0.0001, 0.0025, 0.005, 0.01, 1.0)  # of a SuperLink that is faster than ours, and of one that is busy
    assert [between_looks(1200, latency) for latency in latencies] == pytest.approx([6, 6, 7.5, 15, 80])


def test_what_is_told_of_rounds_is_what_they_take_at_least():
    now, slept = [0.0], []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    pace = RoundTimer(0.0, lambda: now[0], sleep)
    assert pace.seconds is None
    assert pace.elapsed is None and pace.remaining == 0
    for length in (600, 5, 6, 5, 300, 7):
        pace.begin()
        now[0] += length
        assert pace.elapsed == length and pace.remaining == 0
    assert pace.seconds == pytest.approx(5.0, abs=0.5) and not slept
    kept = RoundTimer(8.0, lambda: now[0], sleep)
    assert kept.seconds == 8
    for length in (1, 2, 20, 3):
        kept.begin()
        now[0] += length
        assert kept.remaining == max(0, 8 - length)
    assert slept == [3, 3, 1, 3, 3] and kept.seconds == pytest.approx(8)


def test_that_rounds_take_longer_than_they_should_is_said_once(caplog):
    now = [0.0]
    pace = RoundTimer(8.0, lambda: now[0], lambda seconds: now.__setitem__(0, now[0] + seconds))
    for lengths, warned in (((5, 8, 8.5, 30, 8, 5, 8, 8.5, 8, 8), 0), ([12] * 8 + [20, 12, 20, 12], 1)):
        for length in lengths:
            pace.begin()
            now[0] += length
        assert len(caplog.messages) == warned and ("round-seconds=12" in caplog.text) == warned


def test_a_client_looks_just_after_the_expected_start_of_its_round():
    client = told(500.0)  # its round is expected at 503.5
    looks = [500.0]
    while looks[-1] < 507:
        looks.append(looks[-1] + client.wait(looks[-1]))
    assert looks[:6] == pytest.approx([500.0, 503.0, 503.7, 504.2, 504.7, 505.2], abs=0.01)
    assert client.wait(507.0) == 2.5  # it is late, and others may wait too


def test_an_early_riser_looks_less_and_less():
    client = told(2000.0)
    assert [client.wait(2000.0 + early) for early in (0.0, 60.0, 100.0, 9000.0)] == [3.0, 3.0, 5.0, 60.0]
    client.answered(4000.0, NextMessage(20.0, ASLEEP))
    assert [client.wait(4020.0 + early) for early in (0.0, 20.0, 100.0)] == [0.5, 1.0, 5.0]
