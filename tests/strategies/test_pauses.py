"""When somebody that does not answer is tried again: pauses worked out by hand."""

import math

from aoi_fl.strategies.round.retry import Backoff


def tries(seconds_a_round: float, rounds: int) -> list[int]:
    """Return the rounds in which one is tried that never answers."""
    silence, tried = Backoff(), []
    for round_ in range(1, rounds + 1):
        silence.now = 1000.0 + round_ * seconds_a_round
        if 7 not in silence.resting(round_):
            tried.append(round_)
            silence.note(7, round_)
    return tried


def test_pauses_double_up_to_64_short_or_simulated_rounds():
    doubled = [1, 2, 4, 8, 16, 32, 64, 128, 192, 256]
    assert tries(0.5, 300)[:8] == doubled[:8]  # no pause is longer than a minute before the last ones
    assert tries(math.nan, 300) == doubled


def test_a_pause_lasts_a_minute_or_four_rounds():
    assert tries(10.0, 30) == [1, 2, 4, 8, 14, 20, 26]  # a minute is six rounds
    assert tries(600.0, 20) == [1, 2, 4, 8, 12, 16, 20]


def test_what_was_remembered_goes_by_rounds_until_the_next_try():
    before, after = Backoff(), Backoff()
    for round_ in (1, 2, 4, 8):
        before.note(7, round_)
    after.load_state_dict(before.state_dict())
    after.now = 1e9
    assert [r for r in range(9, 18) if 7 not in after.resting(r)] == [16, 17]
    after.note(7, 16)
    after.now += 60.0
    assert [r for r in range(17, 24) if 7 not in after.resting(r)] == [20, 21, 22, 23]


def test_an_answer_halves_the_count_of_silences():
    silence = Backoff()
    for round_ in (1, 2, 4):
        silence.note(7, round_)  # three times
    for answers in range(3):
        assert silence.counted() == {7} and silence.resting(5) == ({7} if answers == 0 else set())
        silence.answer(7)
        assert (silence.mute(), list(silence)) == (set(), [])
    assert not silence.counted() and not len(silence.state_dict())
