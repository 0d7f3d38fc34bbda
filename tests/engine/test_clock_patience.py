"""Who is late in simulated time is tried again with growing pauses, against timelines worked out by hand."""

import numpy as np
import pytest

from aoi_fl.lab.simulated_time.clocked_grid import ClockedGrid
from aoi_fl.lab.simulated_time.devices import without_loading
from aoi_fl.strategies import (
    AgeAwareStrategy,
    MarkovParticipation,
    Plan,
    Policy,
    PolicyTraits,
    RandomSelection,
    RoundOptions,
)
from aoi_fl.strategies.selection.selector import FedCSSelection, OortSelection
from tests.fakes import Notes, ToyApp, availability, zeros

N, DEADLINE = 4, 100.0
LONG = 10_000.0
OPTIONS = {"run": "r", "seed": 5, "train_timeout": DEADLINE, "ask_timeout": 30.0, "evaluate_clients": 0}


def grid_of(folder, seconds, spells=(), upload=np.inf, broken=(), settle=lambda: None):
    """Return a grid whose clients train for so many seconds; those that are broken make no numbers.

    The last of them is there in these spells alone, and sends so many bytes a second.
    """

    def learn(array, client, round_):
        return np.full(2, np.nan) if client in broken else array

    app = ToyApp(learn, examples=1, loss=None)
    there = [[(0, LONG)] for _ in seconds]
    there[-1] = list(spells) or there[-1]
    trace = without_loading(availability(there, LONG), seconds, "example")
    trace.upload[-1] = upload
    return ClockedGrid(app, {"runs-dir": str(folder), "seed": 5}, N, trace, settle)


def play(folder, seconds, spells=(), rounds=9, make=RandomSelection, killed=False, upload=np.inf, broken=(), **options):
    """Play rounds in which all take part, each by a server of its own if ``killed``; return their ends and parts."""
    notes, model = Notes(killed), zeros()
    for round_ in range(1, rounds + 1) if killed else [1]:
        resume, arrays = (notes.resume(), notes.arrays) if round_ > 1 else (None, model)
        strategy = make(N, options=RoundOptions(**OPTIONS | options), observer=notes, resume=resume)
        try:
            strategy.start(grid_of(folder, seconds, spells, upload, broken), arrays, rounds)
        except KeyboardInterrupt:
            continue
    return notes.column("clock"), [{p.client: p.outcome for p in r.participations} for r in notes.rounds]


def strategy_of(chosen):
    """Return what makes a strategy that sends the model to ``chosen(round)``, whatever the number of clients."""

    class Chosen(Policy):
        traits = PolicyTraits(N)

        def plan(self, view):
            clients = chosen(view.round)
            return Plan(np.array(clients, np.int64), np.ones(len(clients)))

    return lambda clients, **settings: AgeAwareStrategy(Chosen(), **settings)


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("how", [{}, {"killed": True}], ids=str)
def test_a_slow_client_that_returned_gets_the_time_of_its_last_answer(deterministic, how, tmp_path):
    """It needs 50 s, answers in round 1, and leaves in round 2, which costs the deadline."""
    spells = [(0, 70), (140, LONG)]
    ends, parts = play(tmp_path, [9, 9, 9, 49], spells, rounds=5, deterministic=deterministic, **how)
    assert ends == [50, 150, 200, 250, 300]
    assert [part.get(3) for part in parts] == ["trained", "late", *["trained"] * 3]


def test_a_slow_client_that_never_answered_waits_64_rounds_for_its_next_deadline(tmp_path):
    """It needs 50 s, and leaves at second 20 of the first round. Until then a try gets twice the time of the others."""
    ends, parts = play(tmp_path, [9, 9, 9, 49], [(0, 20), (90, LONG)], rounds=130)
    tries = [round_ for round_, part in enumerate(parts, 1) if 3 in part]
    assert [round_ for round_ in tries if parts[round_ - 1][3] == "trained"] == tries[tries.index(127) :]
    assert np.diff([0, *ends]).tolist() == [100] + [[10, 20][round_ in tries] for round_ in range(2, 127)] + [50] * 4


@pytest.mark.parametrize(
    ("seconds", "chosen", "wanted"),
    [
        ([9, 9, 9, 999], lambda round_: [0 if round_ % 2 else 3], [10, 110, 120, 130, 140, 150]),
        ([LONG, 9, 9, 9], lambda round_: range(N) if round_ == 1 else [0], [100, 110, 120]),
    ],
    ids=["of an earlier round", "of the others"],
)
@pytest.mark.parametrize("how", [{}, {"killed": True}, {"deterministic": True}], ids=str)
def test_a_lone_silent_client_gets_a_known_time(seconds, chosen, wanted, how, tmp_path):
    ends, _ = play(tmp_path, seconds, rounds=len(wanted), make=strategy_of(chosen), **how)
    assert ends == wanted


def test_rounds_without_a_chosen_client_take_a_second(tmp_path):
    ends, _ = play(tmp_path, [9] * N, rounds=3, make=strategy_of(lambda round_: [0] if round_ == 1 else []))
    assert ends == [10, 11, 12]


TRAINED, LATE, REFUSED = "trained", "late", "refused"


@pytest.mark.parametrize(
    ("seconds", "enough", "broken", "ends", "outcomes"),
    [
        ([9, 9, 9, 999], 3, [], [10, 20, 30, 40], [[TRAINED, TRAINED, TRAINED, LATE]] * 4),
        ([9, 14, 9, 999], 4, [], [100, 130, 145, 175], [[TRAINED] * 3 + [LATE]] * 2 + [[TRAINED] * 3]),
        ([9, 19, 29, 39], 2, [0], [30, 60], [[REFUSED, TRAINED, TRAINED, LATE]] * 2),
    ],
    ids=["surplus", "silent", "refused"],
)
def test_a_round_waits_for_enough_updates(seconds, enough, broken, ends, outcomes, tmp_path):
    """A surplus client gets no pause, a silent one more time if it is needed, a refused update no place."""
    found, parts = play(tmp_path, seconds, rounds=len(ends), enough=enough, broken=broken)
    assert found == ends
    assert [[part[client] for client in sorted(part)] for part in parts][: len(outcomes)] == outcomes


def test_client_results_are_stored_before_the_round(tmp_path):
    """All answer in the same second, and two of them are fetched."""
    written, notes = [], Notes(False)
    notes.round_done = lambda record, arrays, memory: notes.rounds.append((record.trained, record.clock == written[-1]))
    options = RoundOptions(**OPTIONS, enough=2)
    grid = grid_of(tmp_path, [9, 9, 9, 9], settle=lambda: written.append(grid.clock.now()))
    RandomSelection(N, options=options, observer=notes).start(grid, zeros(), 3)
    assert notes.rounds == [(2, True)] * 3


def markov(wire):
    return lambda clients, **settings: MarkovParticipation.optimal(clients, 3, 2, coordination=wire, **settings)


def test_a_declined_broadcast_does_not_delay_the_round(tmp_path):
    """The same clients take part as under poll, and only its question, a second of each round, is saved."""
    seconds = [9, 14, 9, 49]
    polled, parts = play(tmp_path / "poll", seconds, rounds=12, make=markov("poll"))
    ends, same = play(tmp_path / "broadcast", seconds, rounds=12, make=markov("broadcast"))
    assert same == parts and min(map(len, parts)) < N
    trained = [max((1 + seconds[client] for client in part), default=0) for part in parts]
    assert np.diff(polled, prepend=0).tolist() == [1 + longest for longest in trained]
    assert np.diff(ends, prepend=0).tolist() == [max(1, longest) for longest in trained]


@pytest.mark.parametrize("killed", [False, True])
def test_slow_senders_are_chosen_once_at_unknown_model_size(killed, tmp_path):
    def fedcs(n, **settings):
        return FedCSSelection(n, DEADLINE, n, **settings)

    ends, parts = play(tmp_path, [9, 9, 9, 4], rounds=4, make=fedcs, killed=killed, upload=1.0, foresight=True)
    assert ends == [100, 110, 120, 130]
    assert [3 in part for part in parts] == [True, False, False, False]


def test_seconds_count_from_the_sending_of_the_model(tmp_path):
    notes = Notes(False)
    strategy = OortSelection(N, options=RoundOptions(**OPTIONS), observer=notes)
    strategy.start(grid_of(tmp_path, [9, 9, 9, 999]), zeros(), 1, timeout=DEADLINE)
    assert {part.client: part.seconds for part in notes.rounds[0].participations} == {0: 10, 1: 10, 2: 10, 3: 100}
    assert strategy.policy.selector.seen.durations.tolist() == [10, 10, 10, 100]


def test_the_first_updates_count_and_lots_break_ties(tmp_path):
    ends, parts = play(tmp_path, [9, 9, 9, 2], rounds=12, enough=2)
    assert ends == [10 * round_ for round_ in range(1, 13)]
    assert all(part[3] == "trained" for part in parts)  # it comes seven seconds before the others
    assert {client for part in parts for client in part if part[client] == "trained"} == {0, 1, 2, 3}
