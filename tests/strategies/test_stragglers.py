"""Updates that come rounds late and count all the same, against timelines worked out by hand."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from aoi_fl.lab.simulated_time.clocked_grid import ClockedGrid
from aoi_fl.science.availability import Availability, always
from aoi_fl.science.devices import DeviceTrace
from aoi_fl.science.selection import RandomSelector
from aoi_fl.strategies import (
    AgeAwareStrategy,
    OldestAge,
    PolicyTraits,
    SelectorPolicy,
)
from aoi_fl.strategies.aggregation.mean import RunningMean
from tests.fakes import (
    MODEL,
    TRAIN,
    ScriptedGrid,
    everyone,
    examples_of,
    honest_app,
    hostile_app,
    model,
    play,
    raises,
    same_model,
    steps_of,
)

SLOW = 3
WORK = [9.0, 9.0, 9.0, 48.0]  # seconds, and one more there and back: rounds end at 20, 30, 40, 50, client 3 at 49


def clocked(app, config, nodes, work=WORK, there=None):
    seconds = np.array([one / examples_of(client) for client, one in enumerate(work)])
    free = np.full(nodes, np.inf)
    trace = DeviceTrace(there or always(nodes), seconds, "example", free, free)
    return ClockedGrid(app, config, nodes, lambda: None, trace)


def share(rounds_late):
    """Return what the only late update of a round counts (Abdelmoniem et al. 2023, Section 4.2, β = 0.35)."""
    return 0.65 / (rounds_late + 1) + 0.35 * (1 - math.exp(-1))


def model_after(rounds, rounds_late, late=SLOW):
    """Return the model after rounds without one client, whose update of the first round is added in the last."""
    others = [client for client in range(4) if client != late]
    size = sum(examples_of(client) for client in others)
    weight = examples_of(late) * share(rounds_late)
    found = {}
    for key, start in MODEL.items():
        step = sum(examples_of(client) * steps_of(client)[key] for client in others)
        last = (step + weight * steps_of(late)[key]) / (size + weight)
        found[key] = start + (rounds - 1) * step / size + last
    return found


def dropped(notes):
    return [
        (record.round, part.client, part.outcome, part.device_seconds, part.reason)
        for record in notes.rounds
        for part in record.participations
        if part.outcome != "trained"
    ]


def test_an_update_three_rounds_late_has_less_weight(tmp_path):
    notes, result, _ = play(everyone, honest_app(), tmp_path, rounds=4, grid=clocked, train_timeout=20.0, late_rounds=3)
    assert [round(record.clock) for record in notes.rounds] == [20, 30, 40, 50]
    assert [record.trained for record in notes.rounds] == [3, 3, 3, 4] and dropped(notes) == []
    assert [record.messages for record in notes.rounds] == [16, 6, 6, 6]  # a busy client is sent nothing
    (late,) = [part for part in notes.rounds[3].participations if part.client == SLOW]
    assert (late.outcome, late.rounds_late, late.seconds, late.device_seconds) == ("trained", 3, 49.0, 49.0)
    assert (late.age, late.loss) == (0, 1.0 + SLOW)
    weights = {part.client: part.weight for part in notes.rounds[3].participations}
    assert math.isclose(weights[SLOW] / weights[0], 4 * share(3)) and math.isclose(sum(weights.values()), 1.0)
    same_model(result.arrays, model_after(4, 3))


def test_who_is_later_than_that_is_late_with_all_its_work(tmp_path):
    notes, *_ = play(everyone, honest_app(), tmp_path, rounds=3, grid=clocked, train_timeout=20.0, late_rounds=2)
    assert dropped(notes) == [(3, SLOW, "late", 40.0, "no update within 2 rounds more")]


def test_who_is_at_work_when_the_run_ends_is_late(tmp_path):
    notes, *_ = play(everyone, honest_app(), tmp_path, rounds=2, grid=clocked, train_timeout=20.0, late_rounds=3)
    assert dropped(notes) == [(2, SLOW, "late", 30.0, "the run ended before its update arrived")]
    assert not any(name.startswith("late") for name in notes.memories[2])
    notes, *_ = play(
        everyone, honest_app(), tmp_path, rounds=9, grid=clocked, run="b", train_timeout=20.0, late_rounds=3, until=25.0
    )
    assert [part[:4] for part in dropped(notes)] == [(2, SLOW, "late", 30.0)]


def test_a_failed_training_is_named_and_tried_again(tmp_path):
    app = hostile_app(raises(RuntimeError("no")), whom=(SLOW,))
    notes, *_ = play(everyone, app, tmp_path, rounds=2, grid=clocked, train_timeout=20.0, late_rounds=3)
    assert [part[:3] for part in dropped(notes)] == [(1, SLOW, "failed"), (2, SLOW, "failed")]


@pytest.mark.parametrize("broken_off", [False, True])
def test_who_leaves_in_mid_training_looks_like_one_who_is_slow(broken_off, tmp_path):
    """It is back at second 25, in the second round, but the server still waits for its first update."""
    there = Availability.from_spells([[(0, 1000)]] * 3 + [[(0, 15), (25, 1000)]], 1000.0)
    options = {"grid": partial(clocked, there=there), "train_timeout": 20.0, "late_rounds": 2}
    notes, *_ = play(everyone, honest_app(), tmp_path, rounds=4, **options)
    if broken_off:
        resume = notes.resume(2)
        again = partial(everyone, resume=resume)
        notes, *_ = play(again, honest_app(), tmp_path, rounds=4, run="b", **options)
    assert [part[:3] for part in dropped(notes)] == [(3, SLOW, "late"), (4, SLOW, "late")]
    assert [part[3:] for part in dropped(notes)] == [
        (15.0, "no update within 2 rounds more"),  # it worked until it left
        (20.0, "the run ended before its update arrived"),  # sent the model again in the fourth round
    ]


def slow(kind, round_, client):
    """The first update of client 0 arrives when the third round begins."""
    return 2 * ((kind, round_, client) == (TRAIN, 1, 0))


def test_over_a_network_it_is_fetched_when_it_is_there(tmp_path):
    notes, result, _ = play(
        everyone,
        honest_app(),
        tmp_path,
        rounds=3,
        grid=partial(ScriptedGrid, script=slow),
        train_timeout=0.5,
        late_rounds=4,
    )
    assert [record.trained for record in notes.rounds] == [3, 3, 4] and dropped(notes) == []
    (late,) = [part for part in notes.rounds[2].participations if part.client == 0]
    assert late.rounds_late == 2 and late.device_seconds is None and 0.5 < late.seconds < 60
    same_model(result.arrays, model_after(3, 2, late=0))


def test_a_late_update_is_not_taken_for_the_forced_one(tmp_path):
    class Forcing(SelectorPolicy):
        def plan(self, view):
            return replace(super().plan(view), forced=view.round == 4)

    policy = Forcing(RandomSelector(4, 3), 4, PolicyTraits(4, own_weights="size"))
    make = partial(AgeAwareStrategy, policy)
    notes, *_ = play(make, honest_app(), tmp_path, rounds=4, grid=clocked, train_timeout=20.0, late_rounds=3)
    forced = {part.client: part.forced for part in notes.rounds[3].participations}
    assert forced == {0: True, 1: True, 2: True, SLOW: False}


def test_a_deviating_late_update_has_more_weight(tmp_path):
    grid = partial(clocked, work=[9.0, 9.0, 47.0, 48.0])
    notes, *_ = play(everyone, honest_app(), tmp_path, rounds=4, grid=grid, train_timeout=20.0, late_rounds=3)
    weights = {part.client: part.weight for part in notes.rounds[3].participations}
    mean = {key: (10 * steps_of(0)[key] + 20 * steps_of(1)[key]) / 30 for key in ("w", "b")}
    apart = [math.sqrt(sum(((mean[k] - steps_of(c)[k]) ** 2).sum() for k in mean)) for c in (2, 3)]
    for client, distance in zip((2, 3), apart, strict=True):
        counts = 0.65 / 4 + 0.35 * (1 - math.exp(-((distance / max(apart)) ** 2)))
        assert math.isclose(weights[client] / weights[0], counts * examples_of(client) / 10, rel_tol=1e-6)


def test_a_change_counts_whatever_the_order_of_its_arrays():
    start = model()
    backwards = {name: np.ones_like(start[name].numpy()) for name in reversed(list(start))}
    mean = RunningMean(start)
    mean.add_change(backwards, 1.0)
    assert list(mean.result()) == list(start)


def test_a_round_waits_for_the_first_busy_client(tmp_path):
    """All need 24 s or more of 20: the second round ends with the first two updates, at 25 s, and none is lost."""
    grid = partial(clocked, work=[24.0, 24.0, 30.0, 30.0])
    notes, *_ = play(everyone, honest_app(), tmp_path, rounds=3, grid=grid, train_timeout=20.0, late_rounds=2)
    assert [(r.clock, r.trained, r.empty) for r in notes.rounds][:2] == [(20.0, 0, True), (25.0, 2, False)]
    assert not [part for part in dropped(notes) if part[0] < 3]


def test_small_and_large_rounds_have_equal_weight(tmp_path):
    """Alone in the first round, its ω is 1, and that of the three others in the third 1/3 each."""
    there = Availability.from_spells([[(15, 1000)]] * 3 + [[(0, 1000)]], 1000.0)
    grid = partial(clocked, work=[9.0, 9.0, 9.0, 35.0], there=there)
    make = partial(OldestAge, 4)
    notes, *_ = play(make, honest_app(), tmp_path, rounds=3, grid=grid, train_timeout=20.0, late_rounds=3)
    assert [record.trained for record in notes.rounds] == [0, 3, 4]
    weights = {part.client: part.weight for part in notes.rounds[2].participations}
    assert math.isclose(weights[SLOW] / weights[0], share(2))
