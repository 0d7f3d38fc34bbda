"""A client that does not answer in time is tried again after growing pauses."""

import itertools
import math
from functools import cache, partial
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from flwr.app import ConfigRecord

from aoi_fl.protocol import default_name
from aoi_fl.protocol.clock import MACHINE, Clock
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.strategies import (
    F3astSelection,
    MarkovParticipation,
    OldestAge,
    RandomSelection,
)
from aoi_fl.strategies.round.retry import TRAINING, Backoff, RetryPolicy
from tests import fakes
from tests.fakes import ASK, EVALUATE, HUNG, TRAIN, Notes, ScriptedGrid, ToyApp, sines, zeros

N = 6
NOT_WAITED = "no reply, like the last time, so it was not waited for as long"
everyone = partial(RandomSelection, N)
POLICY = MarkovPolicy.increasing(N, 2, 4)


class Ticking(Clock):
    """A clock that passes in waiting alone, however busy the machine is."""

    def __init__(self):
        self.ticks = 0.0

    def now(self):
        return self.ticks

    def wait(self, message_ids, count, seconds, until):
        self.ticks = max(self.ticks, min(self.ticks + seconds, until))

    def came(self, reply):
        return self.ticks


class Ticked(ScriptedGrid):
    """A grid with a clock of its own."""

    def __init__(self, *arguments, **more):
        self.clock = Ticking()
        super().__init__(*arguments, **more)


class Timed(Notes):
    """Notes of how long rounds took by the grid's clock."""

    def __init__(self):
        super().__init__()
        self.ends = []

    @property
    def took(self):
        return np.diff(self.ends, prepend=0.0)

    def round_done(self, record, arrays, memory):
        self.ends.append(self.grid.clock.now())
        super().round_done(record, arrays, memory)


def play(make, folder, script=None, rounds=10, kind=Ticked, **options):
    """Run rounds in time that passes in waiting alone; return the notes."""
    app = ToyApp(sines, examples=lambda client: 10 + client, evaluates=float)
    times = {"ask_timeout": 0.05, "train_timeout": 0.05, "evaluate_timeout": 0.05}
    how = {"notes": Timed(), "start": zeros(5), "seed": 5, **times, **options}
    return fakes.play(make, app, folder, rounds, N, partial(kind, script=script), **how)


def willing(coordination):
    """Return a maker of a policy under which every client always takes part."""
    if coordination == "random":
        return partial(RandomSelection, N)
    return partial(MarkovParticipation.optimal, N, N, 0, coordination=coordination)


def silent(*clients):
    """Return a script in which these clients never train."""
    return lambda kind, round_, client: HUNG if kind == TRAIN and client in clients else 0


@pytest.mark.parametrize("policy", ["random", "broadcast"])
def test_a_silent_trainer_is_retried_with_growing_pauses(policy, tmp_path):
    notes = play(willing(policy), tmp_path, silent(2), 9, train_timeout=1.0, evaluate_clients=N)
    tries = notes.grid.rounds(TRAIN, 2)
    assert tries == [1, 2, 4, 8] and notes.column("trained") == [N - 1] * 9
    assert notes.of_outcome("late") == [[2] * (round_ in tries) for round_ in range(1, 10)]
    why = [p.reason for p in notes.parts if p.outcome == "late"]
    assert why[0] == "no reply by the deadline" and set(why[1:]) == {NOT_WAITED}
    assert notes.took[0] >= 1 > 0.1 > max(notes.took[1:])
    assert {*notes.grid.rounds(EVALUATE, 2)} <= {8 + 1}  # a resting client does not evaluate either


def test_a_silent_trainer_is_not_forced(tmp_path):
    lonely = MarkovPolicy.optimal(N, 1, 0)  # everyone with probability 1/6: many a round is empty

    notes = play(partial(MarkovParticipation, lonely), tmp_path, silent(0, 1), 40)
    late = set()
    for record in notes.rounds:
        forced = [p.client for p in record.participations if p.forced]
        assert not late & set(forced)
        late |= {p.client for p in record.participations if p.outcome == "late"}
    assert late == {0, 1} and sum(notes.column("forced")) > 5


def test_no_pause_grows_while_no_client_answers(tmp_path):
    """All are silent in rounds 3 to 7, all but one in round 8: pauses of 1, 2 and 4 rounds, in which all are tried."""

    def script(kind, round_, client):
        return HUNG if kind == TRAIN and 3 <= round_ <= 7 + (client > 0) else 0

    notes = play(everyone, tmp_path, script, train_timeout=0.2)
    assert notes.column("trained") == [N, N, 0, 0, 0, 0, 0, 1, 1, N]
    assert notes.took[2:8] == pytest.approx(0.2)


def test_a_client_that_sleeps_is_still_sent_its_training(tmp_path):
    def pushed(folder, **lie):
        class Liar(Ticked):
            def heard(self, reply, kind, round_, client):
                if kind == ASK and client == 1:
                    said = {"takes-part": True, "next-round": round_}
                    reply.content["aoi"] = ConfigRecord({**reply.content["aoi"], **said, **lie})
                return reply

        make = partial(MarkovParticipation, POLICY, coordination="reserve")
        notes = play(make, folder, silent(1), 20, kind=Liar, ask_timeout=1.0, round_seconds=0.01)
        return notes.grid.rounds(TRAIN, 1)

    honest = pushed(tmp_path / "honest")
    assert 1 < len(honest) < 8 and pushed(tmp_path / "sleeps", sleeps=1e9) == honest


PATTERNS = [(True, False), (True, False, False), (True, True, False, False), (True, *3 * [False])]


@pytest.mark.parametrize(
    ("wire", "pattern"), [*zip(("poll", "random", "poll", "broadcast"), PATTERNS, strict=True), ("poll", PATTERNS[-1])]
)
def test_who_answers_now_and_then_costs_one_deadline(pattern, wire, tmp_path):
    turns = itertools.cycle(pattern)

    def script(kind, round_, client):
        return HUNG if (kind, client) == (ASK if wire == "poll" else TRAIN, 2) and next(turns) else 0

    notes = play(willing(wire), tmp_path, script, 40, train_timeout=1.0, ask_timeout=1.0)
    assert 1.0 <= notes.grid.clock.now() < 1.1
    assert all(record.trained >= N - 1 for record in notes.rounds)
    assert sum(record.trained == N for record in notes.rounds) >= 4


def tries(seconds_a_round, rounds):
    """Return the rounds in which one is tried that never answers."""
    silence, tried = Backoff(), []
    for round_ in range(1, rounds + 1):
        silence.round, silence.now = round_, 1000.0 + round_ * seconds_a_round
        if 7 not in silence.resting():
            tried.append(round_)
            silence.note(7)
    return tried


def test_pauses_double_up_to_64_rounds_or_last_a_minute_or_four():
    doubled = [1, 2, 4, 8, 16, 32, 64, 128, 192, 256]
    assert tries(0.5, 300)[:8] == doubled[:8]  # no pause is longer than a minute before the last ones
    assert tries(math.nan, 300) == doubled  # simulated rounds
    assert tries(10.0, 30) == [1, 2, 4, 8, 14, 20, 26]  # a minute is six rounds
    assert tries(600.0, 20) == [1, 2, 4, 8, 12, 16, 20]


def test_an_answer_halves_the_count_of_silences():
    silence = Backoff()
    for round_ in (1, 2, 4):
        silence.round = round_
        silence.note(7)
    silence.round = 5
    for answers in range(62):  # 3/2⁶² of a silence is forgotten
        assert silence.counted() == {7} and silence.resting() == ({7} if answers == 0 else set())
        silence.answer(7)
        assert silence.mute() == silence.silent == set()
    assert not silence.counted() and not len(silence.state_dict())


@pytest.mark.parametrize("broken", [{0}, {0, 1}], ids=["one", "two"])
@pytest.mark.parametrize("policy", [OldestAge, F3astSelection])
def test_a_client_that_always_fails_costs_its_share(policy, broken, tmp_path):
    def fail(array, client, round_):
        if client in broken:
            raise ValueError("broken")
        return array + 1

    notes = fakes.play(partial(policy, 2), ToyApp(fail), tmp_path, 60, 10)
    trained = sum(part.outcome == "trained" for part in notes.parts)
    assert len(notes.rounds) == 60 and trained >= 120 * (1 - len(broken) / 10)


def test_absence_forgives_no_silence():
    silence = RetryPolicy()
    for round_ in range(1, 8):
        silence.listen(round_, math.nan)
        assert 3 not in silence.resting(TRAINING)
        silence.ended(TRAINING, {3})
        silence.returned(3)
        assert silence.worth(TRAINING, {3, 4}, MACHINE, others=True)({3}) is not None  # not until the deadline


@cache
def usual(policy):
    """Return the seconds of a run in which training takes each client 0.1 seconds."""
    prompt = partial(Ticked, takes=lambda kind, round_, client: 0.1 * (kind == TRAIN))
    with TemporaryDirectory() as folder:
        return play(willing(policy), folder, rounds=30, kind=prompt, train_timeout=1.0).grid.clock.now()


@pytest.mark.parametrize(
    ("policy", "client_takes"),
    [
        *((policy, 1.05) for policy in ("random", "broadcast", "poll", "reserve")),
        *(("random", seconds) for seconds in (1.5, 3.0)),
    ],
)
def test_a_client_that_is_just_late_costs_one_deadline(policy, client_takes, tmp_path):
    takes = lambda kind, round_, client: (client_takes if client == 2 else 0.1) if kind == TRAIN else 0.0  # noqa: E731
    notes = play(willing(policy), tmp_path, rounds=30, kind=partial(Ticked, takes=takes), train_timeout=1.0)
    assert notes.grid.clock.now() - usual(policy) <= 1 + 0.15 * len(notes.grid.rounds(TRAIN, 2))
    assert notes.column("trained") == 30 * [N - 1] and len(notes.grid.rounds(TRAIN, 2)) < 8


def test_mute_newcomers_cost_two_waits_in_all(tmp_path):
    """In each round another node is connected that never answers; one that answers is still met."""

    def present(grid):
        return [*range(N), N + len(grid.notes.rounds)]

    grid = partial(Ticked, present=present, script=lambda kind, round_, client: HUNG if N <= client < 2 * N else 0)
    notes = fakes.play(everyone, ToyApp(), tmp_path, 2 * N, 3 * N, grid, ask_timeout=60.0, join_timeout=60.0)
    assert notes.grid.clock.now() <= 10.0 and notes.column("trained") == [N] * 2 * N
    assert {record.client for record in notes.clients} >= set(range(N)) and len(notes.clients) == 2 * N


@pytest.mark.parametrize("kinds", [{TRAIN}, {TRAIN, ASK}], ids=["training", "all"])
@pytest.mark.parametrize("wire", ["random", "broadcast", "poll", "reserve"])
def test_a_silent_client_with_a_new_name_each_round_costs_one_deadline(wire, kinds, tmp_path):
    """Each name is of another node, and introduces itself; an honest newcomer of the last rounds still trains."""
    rounds = 20

    def present(grid):
        number = len(grid.notes.rounds) + 1
        return [*range(N), N + number, *([N] if number > 15 else [])]

    grid = partial(Ticked, present=present, script=lambda kind, r, client: HUNG if kind in kinds and client > N else 0)
    times = {"ask_timeout": 60.0, "train_timeout": 60.0}
    notes = fakes.play(willing(wire), ToyApp(), tmp_path, rounds, N + rounds + 1, grid, **times)
    assert notes.grid.clock.now() <= 1.1 * 60.0
    newcomer = next(record.client for record in notes.clients if record.name == default_name(N))
    assert len(notes.rounds) == rounds and any(newcomer in clients for clients in notes.trained())


def test_a_client_that_is_slow_and_silent_in_turn_costs_one_deadline(tmp_path):
    """It answers by the deadline in rounds that do not wait so long, and is silent in the next one."""

    class Cunning(Ticked):
        awaited = True

        def __init__(self, *arguments, **more):
            super().__init__(*arguments, takes=self.answer, **more)

        def answer(self, kind, round_, client):
            if (kind, client) != (TRAIN, 2):
                return 0.1 * (kind == TRAIN)
            seconds, self.awaited = math.inf if self.awaited else 0.5, False
            return seconds

        def heard(self, reply, kind, round_, client):
            self.awaited |= (kind, client) == (TRAIN, 2)
            return super().heard(reply, kind, round_, client)

    notes = play(everyone, tmp_path, rounds=30, kind=Cunning, train_timeout=1.0)
    tries = len(notes.grid.rounds(TRAIN, 2))
    assert notes.grid.clock.now() - usual("random") <= 1 + 0.15 * tries and tries < 8
