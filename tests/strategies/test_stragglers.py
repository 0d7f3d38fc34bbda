"""Updates that come rounds late and count all the same, against timelines worked out by hand."""

import math
from functools import partial

from aoi_fl.lab.simulated_time.availability import always
from aoi_fl.lab.simulated_time.clocked_grid import ClockedGrid
from aoi_fl.lab.simulated_time.devices import without_loading
from tests.fakes import (
    MODEL,
    TRAIN,
    ScriptedGrid,
    everyone,
    examples_of,
    honest_app,
    play,
    same_model,
    steps_of,
)

SLOW = 3
WORK = [9.0, 9.0, 9.0, 48.0]  # seconds, and one more there and back: rounds end at 20, 30, 40, 50, client 3 at 49


def clocked(app, config, nodes, work=WORK):
    seconds = [one / examples_of(client) for client, one in enumerate(work)]
    return ClockedGrid(app, config, nodes, without_loading(always(nodes), seconds, "example"))


def late(folder, rounds, late_rounds, grid=clocked, timeout=20.0):
    more = {"grid": grid, "train_timeout": timeout, "late_rounds": late_rounds}
    return play(everyone, honest_app(), folder, rounds, **more)


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


def dropped(rounds):
    return [part for record in rounds for part in record.participations if part.outcome != "trained"]


def test_an_update_three_rounds_late_has_less_weight(tmp_path):
    notes = late(tmp_path, 4, 3)
    assert [round(record.clock) for record in notes.rounds] == [20, 30, 40, 50]
    assert notes.column("trained") == [3, 3, 3, 4] and not dropped(notes.rounds)
    assert notes.column("messages") == [16, 6, 6, 6]  # a busy client is sent nothing
    (part,) = [one for one in notes.rounds[3].participations if one.client == SLOW]
    assert (part.outcome, part.rounds_late, part.seconds, part.device_seconds) == ("trained", 3, 49.0, 49.0)
    assert (part.age, part.loss) == (0, 1.0 + SLOW)
    weights = {part.client: part.weight for part in notes.rounds[3].participations}
    assert math.isclose(weights[SLOW] / weights[0], 4 * share(3)) and math.isclose(sum(weights.values()), 1.0)
    same_model(notes.result.arrays, model_after(4, 3))


def slow(kind, round_, client):
    """The first update of client 0 arrives when the third round begins."""
    return 2 * ((kind, round_, client) == (TRAIN, 1, 0))


def test_over_a_network_it_is_fetched_when_it_is_there(tmp_path):
    notes = late(tmp_path, 3, 4, partial(ScriptedGrid, script=slow), 0.5)
    assert notes.column("trained") == [3, 3, 4] and not dropped(notes.rounds)
    (part,) = [one for one in notes.rounds[2].participations if one.client == 0]
    assert part.rounds_late == 2 and part.device_seconds is None and 0.5 < part.seconds < 60
    same_model(notes.result.arrays, model_after(3, 2, late=0))


def test_a_round_waits_for_the_first_busy_client(tmp_path):
    """All need 24 s or more of 20: the second round ends with the first two updates, at 25 s, and none is lost."""
    grid = partial(clocked, work=[24.0, 24.0, 30.0, 30.0])
    notes = late(tmp_path, 3, 2, grid)
    assert [(r.clock, r.trained, r.empty) for r in notes.rounds][:2] == [(20.0, 0, True), (25.0, 2, False)]
    assert not dropped(notes.rounds[:2])
