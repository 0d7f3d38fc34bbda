"""When somebody that does not answer is tried again: pauses worked out by hand."""

import math

from aoi_fl.strategies.silence import Silence


def tries(seconds_a_round: float, rounds: int) -> list[int]:
    """Return the rounds in which one is tried that never answers."""
    silence, tried = Silence(), []
    for round_ in range(1, rounds + 1):
        silence.now = 1000.0 + round_ * seconds_a_round
        if 7 not in silence.resting(round_):
            tried.append(round_)
            silence.note(7, round_)
    return tried


def test_pauses_double_up_to_64_rounds_where_rounds_are_short_or_time_is_simulated():
    doubled = [1, 2, 4, 8, 16, 32, 64, 128, 192, 256]
    assert tries(0.5, 300)[:8] == doubled[:8]  # no pause is longer than a minute before the last ones
    assert tries(math.nan, 300) == doubled


def test_no_pause_is_longer_than_a_minute_of_rounds_but_four_rounds_it_is():
    assert tries(10.0, 30) == [1, 2, 4, 8, 14, 20, 26]  # a minute is six rounds
    assert tries(600.0, 20) == [1, 2, 4, 8, 12, 16, 20]


def test_what_was_remembered_goes_by_rounds_until_the_next_try():
    before, after = Silence(), Silence()
    for round_ in (1, 2, 4, 8):
        before.note(7, round_)
    after.recall(before.memory())
    after.now = 1e9
    assert [r for r in range(9, 18) if 7 not in after.resting(r)] == [16, 17]
    after.note(7, 16)
    after.now += 60.0
    assert [r for r in range(17, 24) if 7 not in after.resting(r)] == [20, 21, 22, 23]
