"""Rounds without a barrier, against a plain model of their events and against hostile clients."""

import time
from copy import deepcopy
from functools import partial

import numpy as np
import pytest
from flwr.app import Message, RecordDict
from flwr.serverapp import strategy as flower

from aoi_fl.config.run import RunConfig
from aoi_fl.flower.replies import error_reply
from aoi_fl.lab.simulated_time.availability import always
from aoi_fl.lab.simulated_time.clocked_grid import ClockedGrid
from aoi_fl.lab.simulated_time.devices import without_loading
from aoi_fl.science.selection import evenly
from aoi_fl.strategies import (
    AgeAwareStrategy,
    MarkovParticipation,
    PolicyTraits,
    RandomSelection,
    RoundOptions,
    SelectorPolicy,
    SystematicParticipation,
)
from tests.fakes import HUNG, Notes, ScriptedGrid, ToyApp, availability, everyone, play, record_of, spells
from tests.refusals import refused

N, ROUNDS, END, POWER = 9, 14, 5000.0, 0.7
START = record_of({"w": np.zeros(2)})


def size(client):
    return 10 * (client % 4 + 1)


def buffered(folder, make=everyone, app=None, **how):
    """Play rounds without a barrier; return the notes."""
    return play(make, app or ToyApp(), folder, **{"rounds": 6, "start": START, "buffer": 2, "late_rounds": 9} | how)


def clocked(trace):
    return lambda app, config, nodes: ClockedGrid(app, config, nodes, trace)


class Noted:
    """A selector that draws by seed and round, and notes what it may choose from and what it chooses."""

    def __init__(self, per_round, seed):
        self.per_round, self.seed, self.seen = per_round, seed, {}

    def select(self, round_, population):
        here = np.flatnonzero(population.available)
        lots = np.random.default_rng((self.seed, round_)).permutation(here)
        chosen = np.sort(lots[: self.per_round])
        self.seen[round_] = here.tolist(), chosen.tolist(), self.per_round
        return evenly(chosen)


class Events:
    """One random federation: devices that leave and return, and how many are at work, awaited and waited for."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.seed, self.seconds = seed, rng.uniform(2, 40, N) * rng.choice([1, 4], N, p=[0.8, 0.2])
        self.spells = [[(0.0, END)], *(spells(rng, 120.0, 40.0, END) for _ in range(N - 1))]  # one is always there
        self.at_work = int(rng.integers(2, 8))
        self.buffer = int(rng.integers(1, self.at_work + 1))
        self.late, self.timeout = int(rng.integers(1, 6)), float(rng.choice([30.0, 90.0]))

    def until(self, client, now):
        """Return when a device leaves; now, if it is away."""
        return next((end for begin, end in self.spells[client] if begin <= now < end), now)

    def predicted(self, chosen):
        """Yield time, (client, staleness) of the used updates, lost clients and model of each round."""
        now, model, flights = 0.0, 0.0, {}
        for round_ in range(1, ROUNDS + 1):
            begun, used, lost = now, [], []

            def lose(clients, lost=lost):
                lost += sorted(clients)
                for client in clients:
                    del flights[client]

            lose([c for c, (*_, arrives) in flights.items() if self.until(c, now) == now < arrives])
            for client in chosen[round_]:
                done = now + 1 + self.seconds[client]
                arrives = done if done <= self.until(client, now) else np.inf
                flights[client] = round_, model, now + self.timeout, arrives
            wanted = min(self.buffer, len(flights))
            while flights and len(used) < wanted:
                if used and len(used) + len(flights) < wanted and len(flights) <= self.at_work - self.buffer:
                    break
                first = min(flights, key=lambda c: flights[c][3])
                deadline = min(end for *_, end, _ in flights.values())
                if flights[first][3] <= max(deadline, now):
                    base_round, base, _, arrives = flights.pop(first)
                    now = max(now, arrives)
                    used.append((first, round_ - base_round, 0.9 * base + first - base))
                else:
                    now = max(now, deadline)
                    lose([c for c, (*_, end, _) in flights.items() if end <= now])
            total = sum(size(client) for client, *_ in used)
            model += sum(size(c) * (1 + s) ** -POWER * step for c, s, step in used) / max(total, 1)
            now = now if used or now > begun else now + 1
            lose([c for c, (since, *_) in flights.items() if round_ - since >= self.late])
            yield now, [(c, s) for c, s, _ in used], lost, model

    def play(self, folder, resume=None, kill=(), start=None):
        selector = Noted(self.at_work, self.seed)
        policy = SelectorPolicy(selector, self.at_work, PolicyTraits(self.at_work, own_weights="size", least=1))
        per_example = self.seconds / [size(client) for client in range(N)]
        trace = without_loading(availability(self.spells, END), per_example, "example")
        app = ToyApp(
            lambda array, client, _: 0.9 * array + client, examples=size, declares=lambda c: {"num-examples": size(c)}
        )
        notes = Notes(kill)
        try:
            buffered(
                folder,
                partial(AgeAwareStrategy, policy),
                app,
                rounds=ROUNDS,
                nodes=N,
                notes=notes,
                resume=resume,
                start=start or START,
                grid=clocked(trace),
                train_timeout=self.timeout,
                buffer=self.buffer,
                late_rounds=self.late,
                staleness_power=POWER,
                min_clients=self.at_work,
            )
        except KeyboardInterrupt:
            assert kill
        return notes, selector.seen


def lines(notes):
    """Return time, used updates with their staleness, other clients and model of each round."""
    found = {}
    for record, model in zip(notes.rounds, notes.models, strict=True):
        used = [(p.client, p.rounds_late) for p in record.participations if p.outcome == "trained"]
        lost = sorted(p.client for p in record.participations if p.outcome != "trained")
        found[record.round] = record.clock, used, lost, float(model["w"][0])
    return found


@pytest.mark.parametrize("seed", range(8))
def test_rounds_follow_a_plain_model_of_their_events(seed, tmp_path):
    events = Events(seed)
    notes, seen = events.play(tmp_path / "whole")
    found, busy = lines(notes), set()
    plain = dict(enumerate(events.predicted({round_: chosen for round_, (_, chosen, _) in seen.items()}), 1))
    for round_, (clock, used, lost, model) in plain.items():
        here, chosen, places = seen[round_]
        if round_ == ROUNDS:  # the end of the run ends all work
            lost = sorted({*lost, *(busy | set(chosen)) - {client for client, _ in used}})
        assert found[round_][1:3] == (used, sorted(lost))
        np.testing.assert_allclose([found[round_][0], found[round_][3]], [clock, model], rtol=1e-9)
        left = busy - {c for c, _ in used} - set(lost)
        assert not busy & set(chosen) - set(lost) and len(chosen) == min(places, len(here))
        busy = left | set(chosen) - {c for c, _ in used} - set(lost)
        record = notes.rounds[round_ - 1]
        assert record.at_work <= events.at_work and record.messages == 2 * len(chosen) + 2 * N * (round_ == 1)
    cuts = sorted(np.random.default_rng(seed).choice(range(1, ROUNDS), 2, replace=False).tolist())
    notes, _ = events.play(tmp_path / "broken", kill=cuts[:1])
    for cut, next_cut in zip(cuts, [*cuts[1:], ROUNDS + 1], strict=True):
        broken = notes
        notes, _ = events.play(tmp_path / "broken", resume=broken.resume(), kill=[next_cut], start=broken.arrays)
        notes.clients = broken.clients
        assert lines(notes) == {round_: line for round_, line in found.items() if cut < round_ <= next_cut}


@pytest.mark.parametrize("coordination", ["poll", "broadcast", "reserve"])
@pytest.mark.parametrize("policy", [MarkovParticipation.optimal, SystematicParticipation])
def test_clients_that_decide_keep_as_many_at_work(policy, coordination, tmp_path):
    """Of 30 devices of unequal speed 8 are to work, and a model needs 3."""
    grid = clocked(without_loading(always(30), np.random.default_rng(4).uniform(5, 60, 30)))
    make, how = partial(policy, 30, 3, coordination=coordination), {"buffer": 3, "at_work": 8, "late_rounds": 50}
    notes = buffered(tmp_path, make, rounds=35, nodes=30, grid=grid, train_timeout=200.0, **how)
    later = notes.rounds[15:]
    assert abs(np.mean([record.trained for record in later]) - 3) < 0.5
    if coordination != "broadcast":  # there each client that is asked has the model for a moment
        assert abs(np.mean([record.at_work for record in later]) - 8) < 1
    assert not any(record.forced or record.empty for record in notes.rounds)
    if coordination == "reserve":  # a decision is the number of a model
        reserved = {p.client: p.next_round for r in notes.rounds[:30] for p in r.participations if p.next_round}
        assert len(reserved) > 10 and all(round_ > 0 for round_ in reserved.values())


def hung(kind, round_, client):
    return HUNG if (kind, client) == ("train", 0) else 0


class Busy(ScriptedGrid):
    """Its server takes so long between two models that updates always wait for it."""

    def push_messages(self, messages):
        time.sleep(0.05)
        return super().push_messages(messages)


def test_an_overdue_client_frees_its_place_while_updates_arrive(tmp_path):
    grid = partial(Busy, script=hung)
    notes = buffered(tmp_path, grid=grid, rounds=12, late_rounds=40, train_timeout=0.12)
    assert any(notes.of_outcome("late")[:7])


def test_updates_that_arrived_in_time_count_when_they_are_read_late(tmp_path):
    notes = buffered(tmp_path, grid=Busy, buffer=1, rounds=10, late_rounds=40, train_timeout=0.12)
    assert {part.outcome for record in notes.rounds[:-1] for part in record.participations} == {"trained"}


def test_a_client_that_left_after_its_update_arrived_counts(tmp_path):
    """The update arrives while another client evaluates, and its client is away when the next round begins."""

    def slow(kind, round_, client):
        return int((kind, round_, client) == ("train", 1, 0))

    grid = partial(ScriptedGrid, script=slow, present=lambda grid: range(int(grid.batch > 2), 4))
    notes = buffered(tmp_path, app=ToyApp(evaluates=1.0), rounds=4, grid=grid, evaluate_clients=1)
    parts = [(r.round, p.outcome, p.rounds_late) for r in notes.rounds for p in r.participations if p.client == 0]
    assert parts == [(2, "trained", 1)]


class Restarting(ScriptedGrid):
    """The node of client 0 starts anew after the first round, under another id."""

    def __init__(self, *how, **more):
        super().__init__(*how, script=lambda kind, _, node: HUNG if (kind, node) == ("train", 0) else 0, **more)
        self._contexts[99] = deepcopy(self._contexts[self.nodes[0]])
        self.nodes.append(99)
        self.present = lambda grid: range(int(grid.batch > 1), 4 + int(grid.batch > 1))


def test_a_client_that_starts_anew_rests_for_a_round_and_has_one_row(tmp_path):
    notes = buffered(tmp_path, grid=Restarting)
    first, second, *_ = [(r.round, p.outcome) for r in notes.rounds for p in r.participations if p.client == 0]
    assert first == (2, "late") and second[0] > 2 and second[1] == "trained"
    assert notes.grid.rounds("train", 4)[0] == 3


class Hostile(ScriptedGrid):
    """Each look brings every earlier update once more, and an update and an error in another client's name."""

    def pull_messages(self, message_ids):
        old = list(self.updates[-20:])
        replies = list(super().pull_messages(message_ids))
        waiting = [i for i in self._waiting if self.about[i][0] == "train"]
        if old and waiting:
            old.append(deepcopy(old[-1]))
            vars(old[-1].metadata)["_reply_to_message_id"] = waiting[0]
            about = {"run_id": 1, "src_node_id": old[-1].metadata.src_node_id, "reply_to_message_id": waiting[0]}
            old.append(error_reply("out of memory", **about))
        return [*old, *replies]


def test_answers_to_other_models_are_dropped(tmp_path):
    honest = buffered(tmp_path / "honest", rounds=8, nodes=5)
    notes = buffered(tmp_path / "hostile", rounds=8, nodes=5, grid=Hostile)
    assert notes.trained() == honest.trained()
    np.testing.assert_array_equal(notes.models[-1]["w"], honest.models[-1]["w"])


def test_over_a_network_a_resumed_run_sends_again_what_was_at_work(tmp_path):
    notes = Notes(kill={3})
    with pytest.raises(KeyboardInterrupt):
        buffered(tmp_path, notes=notes, grid=partial(ScriptedGrid, script=hung), buffer=1)
    at_work = {(round_, client) for kind, round_, client in notes.grid.sent if kind == "train"}
    at_work -= {(r.round - p.rounds_late, p.client) for r in notes.rounds for p in r.participations}
    how = {"resume": notes.resume(), "start": notes.arrays, "buffer": 1}
    resumed = buffered(tmp_path, **how)
    again = [(round_, client) for kind, round_, client in resumed.grid.sent if kind == "train"]
    assert (1, 0) in at_work and at_work == set(again[: len(at_work)])
    used = {p.client: p.rounds_late for p in resumed.rounds[0].participations if p.outcome == "trained"}
    assert used == {0: 3}  # it is the first that was sent
    resumed = buffered(tmp_path, grid=partial(ScriptedGrid, present=lambda grid: range(1, 4)), **how)
    (part,) = [p for p in resumed.rounds[0].participations if p.client == 0]
    assert part.outcome == "late" and part.seconds is None  # it was sent by the clock of another process


@pytest.mark.parametrize("wrap", [flower.FedAvg, None])
def test_every_aggregation_gets_rebased_updates(wrap, tmp_path):
    """The running variance of a normalisation moves towards the update, and never below zero."""
    start = {"w": np.zeros(3, np.float32), "bn.running_var": np.ones(2, np.float32), "n": np.array(5)}

    def learn(array, client, round_):
        if array.dtype.kind == "i":
            return array + 2
        return np.full_like(array, 1e-3) if array.size == 2 else array + array.dtype.type(client + 1)

    make = partial(everyone, **({} if wrap is None else {"aggregation": wrap(), "weights": "size"}))
    notes = buffered(tmp_path, make, ToyApp(learn), rounds=5, start=record_of(start))
    model = start
    for record, made in zip(notes.rounds, notes.models, strict=True):
        used = [part for part in record.participations if part.outcome == "trained"]
        for name in ("w", "bn.running_var"):
            moves = [
                (1 + part.rounds_late) ** -0.5 * (part.client + 1 if name == "w" else 1e-3 - model[name])
                for part in used
            ]
            np.testing.assert_allclose(made[name], model[name] + np.mean(moves, axis=0), rtol=1e-4)
        assert made["n"].dtype == start["n"].dtype
        model = made


BUFFER = {"policy": "random", "num-clients": 20, "clients-per-round": 8, "buffer": 4, "late-rounds": 20}


@pytest.mark.parametrize(
    ("keys", "key", "value"),
    [
        ({"buffer": 9}, "buffer", 9),
        ({"late-rounds": 0}, "late-rounds", 0),
        ({"over-selection": 1.5}, "buffer", 4),
        ({"weights": "unbiased"}, "buffer", 4),
        ({"policy": "f3ast"}, "buffer", 4),
        ({"policy": "markov-optimal", "privacy": "white"}, "buffer", 4),
        ({"must-include": "client-1"}, "buffer", 4),
        ({"buffer": 0, "staleness-power": 1.0}, "staleness-", 1.0),
        ({"min-updates": 2}, "min-updates", 2),
        ({"max-weight": 0.5}, "max-weight", 0.5),
        ({"policy": "wics", "clients-per-round": 5}, "buffer", 4),
    ],
    ids=str,
)
def test_keys_that_oppose_a_buffer_are_refused_by_name(keys, key, value):
    with refused(key, value):
        RunConfig.parse(BUFFER | keys)


@pytest.mark.parametrize(
    ("make", "options", "key", "value"),
    [
        (partial(RandomSelection, 4), {"buffer": 5}, "buffer", 5),
        (partial(RandomSelection, 4), {"buffer": 3, "min_clients": 2}, "buffer", 3),
        (partial(RandomSelection, 4, weights="unbiased"), {"buffer": 2}, "buffer", 2),
        (partial(MarkovParticipation.optimal, 9, 4), {"buffer": 2, "at_work": 4}, "per_round", 4),
        (partial(MarkovParticipation.optimal, 9, 2), {"buffer": 2}, "at_work", None),
        (partial(SystematicParticipation, 9, 3), {"buffer": 3, "at_work": 2}, "buffer", 3),
    ],
    ids=str,
)
def test_a_buffer_that_cannot_be_filled_is_refused(make, options, key, value):
    with refused(key, value):
        make(options=RoundOptions(**{"late_rounds": 9} | options))


def test_a_configure_train_of_ones_own_and_a_model_of_bytes_are_refused(tmp_path):
    class Own(RandomSelection):
        def configure_train(self, server_round, arrays, config, grid):
            return [Message(RecordDict({"arrays": arrays}), node, "train") for node in grid.get_node_ids()]

    with refused("buffer", 2):
        buffered(tmp_path, partial(Own, 4))
    with refused("buffer", 2):
        trees = record_of({"0": np.zeros(9, np.uint8)})
        buffered(tmp_path, partial(everyone, aggregation=flower.FedXgbBagging()), start=trees)
