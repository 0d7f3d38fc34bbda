"""The ServerApp of a fleet: it runs rounds without training and writes a note for each."""

import json
import time
from collections import Counter
from pathlib import Path

from aoi_fl.lab.benchmarks.base import peak_memory
from aoi_fl.lab.benchmarks.echo import OWN
from aoi_fl.lab.benchmarks.fleet.models import record
from aoi_fl.strategies import MarkovParticipation, RoundOptions
from aoi_fl.strategies.round.timer import RoundTimer

_JOIN = 300.0  # seconds, at most, until all nodes have connected, and for the first replies
_EACH = 0.2  # further seconds for replies in the first round, for each client that is asked at once


class Notes:
    """Writes a line of JSON for each round, and one when the run begins and ends."""

    def __init__(self, path):
        self._path, self.waited = path, 0.0
        self.calls = Counter()

    def write(self, **values):
        """Add a line with these values, the time and this process's resources."""
        line = {**values, "time": time.time(), "cpu": time.process_time(), "peak": peak_memory(), "calls": self.calls}
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def clients_seen(self, clients):
        """Write the number of new clients."""
        self.write(met=len(clients))

    def round_done(self, record, arrays, memory):
        """Write a round with the outcome of each client."""
        counts = {key: getattr(record, key) for key in ("round", "seconds", "asked", "trained", "dropped", "messages")}
        counts["seconds"] -= self.waited
        self.waited = 0.0
        late = {p.name: p.rounds_late for p in record.participations if p.rounds_late}
        self.write(**counts, outcomes={p.name: p.outcome for p in record.participations}, rounds_late=late)


class FleetTimer(RoundTimer):
    """A timer that notes the wait until a round may begin, which does not count as the round's time."""

    def __init__(self, seconds, notes):
        super().__init__(seconds)
        self._notes = notes

    def begin(self, meanwhile=lambda: None):
        """Wait, and greet newcomers meanwhile."""
        begun = time.monotonic()
        super().begin(meanwhile)
        self._notes.waited += time.monotonic() - begun


def count_calls(grid, counts):
    """Count the calls of a grid over a network by name."""

    def counting(name, call):
        def counted(*of, **more):
            counts[name] += 1
            return call(*of, **more)

        return counted

    if not hasattr(grid, "_stub"):  # over HTTP
        client = grid._runtime_client
        ask = client._unary_unary

        def asked(**call):
            counts[call["rpc_method"].rpartition("/")[2]] += 1
            return ask(**call)

        client._unary_unary = asked
        return
    for name, call in vars(grid._stub).items():
        setattr(grid._stub, name, counting(name, call))


def play(grid, config):
    """Run the configured rounds and write notes to the configured file."""
    notes = Notes(Path(config["out"]))
    n, k, buffer = config["clients"], config["per-round"], config["buffer"]
    options = RoundOptions(
        run="fleet",
        seed=config["seed"],
        join_timeout=_JOIN,
        ask_timeout=config["timeout"] + _EACH * config["least"],
        train_timeout=config["timeout"],
        evaluate_clients=0,
        late_rounds=config["late-rounds"],
        buffer=buffer,
        at_work=k if buffer else None,
        packing=config["packing"],
        min_clients=config["least"] or None,
    )
    strategy = MarkovParticipation.optimal(
        n,
        buffer or k,
        coordination=config["coordination"],
        options=options,
        observer=notes,
        configure=lambda round_: {OWN: True},
    )
    strategy._run.timer = FleetTimer(config["round-seconds"], notes)
    count_calls(grid, notes.calls)
    notes.write(begun=True)
    strategy.start(grid, record(config["model"]), config["rounds"])
    notes.write(ended=True)
