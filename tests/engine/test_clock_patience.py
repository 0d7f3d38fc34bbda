"""Who is late in simulated time is tried again with growing pauses, against timelines worked out by hand."""

import logging

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord

from aoi_fl.lab.simulated_time.availability import Availability
from aoi_fl.lab.simulated_time.clocked_grid import ClockedGrid
from aoi_fl.lab.simulated_time.devices import DeviceTrace
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
from tests.fakes import Notes, ToyApp

N, DEADLINE = 4, 100.0
LONG = 10_000.0


def grid_of(folder, seconds, spells=(), upload=np.inf, broken=(), settle=lambda: None):
    """Return a grid whose clients train for so many seconds; those that are broken make no numbers.

    The last of them is there in these spells alone, and sends so many bytes a second.
    """

    def learn(array, client, round_):
        return np.full(2, np.nan) if client in broken else array

    app = ToyApp(learn, examples=1, loss=None)
    there = [[(0, LONG)] for _ in seconds]
    there[-1] = list(spells) or there[-1]
    free = np.full(N, np.inf)
    up = np.array([np.inf] * (N - 1) + [upload])
    trace = DeviceTrace(Availability.from_spells(there, LONG), np.array(seconds), "example", free, up)
    return ClockedGrid(app, {"runs-dir": str(folder), "seed": 5}, N, settle, trace)


def play(folder, seconds, spells=(), rounds=9, make=RandomSelection, killed=False, upload=np.inf, broken=(), **options):
    """Play rounds in which all take part, each by a server of its own if ``killed``; return their ends and parts."""
    chosen = {"run": "r", "seed": 5, "train_timeout": DEADLINE, "ask_timeout": 30.0, "evaluate_clients": 0} | options
    notes, model = Notes(killed), ArrayRecord({"w": Array(np.zeros(2))})
    for round_ in range(1, rounds + 1) if killed else [1]:
        resume, arrays = (notes.resume(), notes.arrays) if round_ > 1 else (None, model)
        strategy = make(N, options=RoundOptions(**chosen), observer=notes, resume=resume)
        try:
            strategy.start(grid_of(folder, seconds, spells, upload, broken), arrays, rounds)
        except KeyboardInterrupt:
            continue
    return [r.clock for r in notes.rounds], [{p.client: p.outcome for p in r.participations} for r in notes.rounds]


def strategy_of(policy):
    """Return what makes a strategy of a policy, whatever the number of clients."""
    return lambda clients, **settings: AgeAwareStrategy(policy(), **settings)


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_client_that_is_always_late_costs_few_deadlines(deterministic, tmp_path):
    """The others answer after 10 s, the last would after 1000: sent the model in rounds 1, 2, 4 and 8."""
    ends, parts = play(tmp_path, [9, 9, 9, 999], deterministic=deterministic)
    assert ends == [100, 120, 130, 150, 160, 170, 180, 200, 210]
    assert [3 in part for part in parts] == [round_ in (1, 2, 4, 8) for round_ in range(1, 10)]
    assert {part[3] for part in parts if 3 in part} == {"late"}


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_slow_client_that_returned_gets_time(deterministic, tmp_path):
    """It needs 50 s, and leaves at second 20 of the first round.

    In round 2, from 100 on, the others have answered after 10 s: it is given 10 more. But it would have answered by the
    deadline, so that it is waited for in round 3, from 120 on, and from then on as everybody.
    """
    ends, parts = play(tmp_path, [9, 9, 9, 49], [(0, 20), (90, LONG)], rounds=6, deterministic=deterministic)
    assert ends == [100, 120, 170, 220, 270, 320]
    assert [part.get(3) for part in parts] == ["late", "late", *["trained"] * 4]


class Alone(Policy):
    """Sends the model to the last client in every second round, and else to the first."""

    traits = PolicyTraits(N)

    def plan(self, view):
        return Plan(np.array([0 if view.round % 2 else N - 1]), np.ones(1))


@pytest.mark.parametrize("killed", [False, True])
def test_a_lone_silent_client_gets_the_former_time(killed, tmp_path):
    ends, _ = play(tmp_path, [9, 9, 9, 999], rounds=6, make=strategy_of(Alone), killed=killed)
    assert ends == [10, 110, 120, 130, 140, 150]


def test_who_comes_after_enough_have_come_is_not_mute(tmp_path):
    ends, parts = play(tmp_path, [9, 9, 9, 999], rounds=4, enough=3)
    assert ends == [10, 20, 30, 40] and all(part[3] == "late" for part in parts)


def test_silent_clients_get_more_time_if_needed(tmp_path):
    """Four are wanted of four: two answer after 10 s, one after 15, and one never."""
    ends, parts = play(tmp_path, [9, 14, 9, 999], rounds=4, enough=4)
    assert ends == [100, 130, 145, 175] and [len(part) for part in parts] == [4, 4, 3, 4]


def test_a_refused_update_takes_no_place(tmp_path):
    ends, parts = play(tmp_path, [9, 19, 29, 39], rounds=2, enough=2, broken=[0])
    assert parts == [{0: "refused", 1: "trained", 2: "trained", 3: "late"}] * 2 and ends == [30, 60]


def test_client_results_are_stored_before_the_round(tmp_path):
    """All answer in the same second, and two of them are fetched."""
    written, notes = [], Notes(False)
    notes.round_done = lambda record, arrays, memory: notes.rounds.append((record.trained, record.clock == written[-1]))
    options = RoundOptions(run="r", seed=5, train_timeout=DEADLINE, evaluate_clients=0, enough=2)
    grid = grid_of(tmp_path, [9, 9, 9, 9], settle=lambda: written.append(grid.clock.now()))
    RandomSelection(N, options=options, observer=notes).start(grid, ArrayRecord({"w": Array(np.zeros(2))}), 3)
    assert notes.rounds == [(2, True)] * 3


@pytest.mark.parametrize("wire", ["poll", "broadcast", "reserve"])
@pytest.mark.parametrize("seconds", [[9, 14, 19, 999], [9, 14, 9, 49]])
def test_kills_change_neither_simulated_time_nor_retries(wire, seconds, tmp_path):
    def make(clients, **settings):
        return MarkovParticipation.optimal(clients, 3, 2, coordination=wire, **settings)

    spells = [(0, 35), (70, LONG)]
    whole = play(tmp_path / "whole", seconds, spells, rounds=12, make=make)
    assert whole == play(tmp_path / "cut", seconds, spells, rounds=12, make=make, killed=True)
    assert "late" in {part.get(3) for part in whole[1]}


def test_a_declined_broadcast_does_not_delay_the_round(tmp_path):
    """The same clients take part as under poll, and only its question, a second of each round, is saved."""

    def make(wire):
        return lambda clients, **settings: MarkovParticipation.optimal(clients, 3, 2, coordination=wire, **settings)

    seconds = [9, 14, 9, 49]
    polled, parts = play(tmp_path / "poll", seconds, rounds=12, make=make("poll"))
    ends, same = play(tmp_path / "broadcast", seconds, rounds=12, make=make("broadcast"))
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
    options = RoundOptions(run="r", seed=5, train_timeout=DEADLINE, ask_timeout=30.0, evaluate_clients=0)
    strategy = OortSelection(N, options=options, observer=notes)
    model = ArrayRecord({"w": Array(np.zeros(2))})
    strategy.start(grid_of(tmp_path, [9, 9, 9, 999]), model, 1, timeout=DEADLINE)
    assert {part.client: part.seconds for part in notes.rounds[0].participations} == {0: 10, 1: 10, 2: 10, 3: 100}
    assert strategy.policy.selector.seen.durations.tolist() == [10, 10, 10, 100]


def test_nobody_is_told_to_raise_a_deadline_that_most_have_kept(tmp_path, caplog):
    logging.getLogger("flwr").propagate = True
    play(tmp_path, [9, 9, 9, 999], rounds=2)
    assert not [record for record in caplog.records if "No selected client" in record.getMessage()]


def test_the_first_updates_count_and_lots_break_ties(tmp_path):
    _, parts = play(tmp_path / "fast", (9.0, 9.0, 9.0, 2.0), rounds=12, enough=2)
    assert all(part[3] == "trained" for part in parts)  # it comes seven seconds before the others
    assert {client for part in parts for client in part if part[client] == "trained"} == {0, 1, 2, 3}
    ends, _ = play(tmp_path / "one", (9.0, 9.0, 9.0, 2.0), rounds=3, enough=2)
    assert ends == [10.0, 20.0, 30.0]


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_lone_silent_client_gets_the_others_time_again(deterministic, tmp_path):
    """Also where replies are handed out in order, for which the deadline of the mute one is waited for."""

    class Alone(Policy):
        traits = PolicyTraits(N)

        def plan(self, view):
            who = range(N) if view.round == 1 else [0]
            return Plan(np.array(who), np.ones(len(who)))

    ends, _ = play(tmp_path, (LONG, 9.0, 9.0, 9.0), rounds=3, make=strategy_of(Alone), deterministic=deterministic)
    assert ends == [100.0, 110.0, 120.0]
