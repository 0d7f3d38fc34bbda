"""Rounds without a barrier, against a plain model of their events and against hostile clients."""

from functools import partial

import numpy as np
import pytest

from aoi_fl.lab.simulated_time.availability import Availability
from aoi_fl.lab.simulated_time.clocked_grid import ClockedGrid
from aoi_fl.lab.simulated_time.devices import DeviceTrace
from aoi_fl.science.selection import evenly
from aoi_fl.strategies import AgeAwareStrategy, PolicyTraits, SelectorPolicy
from tests.fakes import Notes, ToyApp, play, record_of

N, ROUNDS, END, POWER = 9, 14, 5000.0, 0.7


def size(client):
    return 10 * (client % 4 + 1)


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
        self.spells = [[(0.0, END)]]  # one device is always there
        for _ in range(N - 1):
            ends = np.cumsum(rng.exponential([120.0, 40.0] * 60))
            pairs = zip([0.0, *ends[1::2]], ends[::2], strict=False)
            self.spells.append([(float(a), float(b)) for a, b in pairs if b < END])
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
        selector, free = Noted(self.at_work, self.seed), np.full(N, np.inf)
        policy = SelectorPolicy(selector, self.at_work, PolicyTraits(self.at_work, own_weights="size", least=1))
        per_example = self.seconds / [size(client) for client in range(N)]
        trace = DeviceTrace(Availability.from_spells(self.spells, END), per_example, "example", free, free)
        app = ToyApp(
            lambda array, client, _: 0.9 * array + client, examples=size, declares=lambda c: {"num-examples": size(c)}
        )
        notes = Notes(kill)
        how = {
            "train_timeout": self.timeout, "buffer": self.buffer, "late_rounds": self.late, "staleness_power": POWER,
            "max_empty_rounds": 0, "min_clients": self.at_work,
        }  # fmt: skip
        try:
            play(
                partial(AgeAwareStrategy, policy), app, folder, rounds=ROUNDS, nodes=N, notes=notes, resume=resume,
                start=start or record_of({"w": np.zeros(2)}),
                grid=lambda app, config, nodes: ClockedGrid(app, config, nodes, lambda: None, trace), **how,
            )  # fmt: skip
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


@pytest.mark.parametrize("seed", range(12))
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
    for cut in np.random.default_rng(seed).choice(range(1, ROUNDS), 2, replace=False).tolist():
        folder = tmp_path / str(cut)
        broken, _ = events.play(folder, kill={cut})
        resumed, _ = events.play(folder, resume=broken.resume(), start=broken.arrays)
        assert lines(resumed) == {round_: line for round_, line in found.items() if round_ > cut}
