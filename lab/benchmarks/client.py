"""The time of a client's reads and writes of its state, against SQLite, and of an update through the owner's gate."""

import json
import os
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path

import numpy as np

from aoi_fl.client.device.receipts import signer
from aoi_fl.client.gate.book import Book
from aoi_fl.client.gate.gate import Arrival, Gate
from aoi_fl.client.gate.limits import Content
from aoi_fl.client.state import ClientState, StateFile, written_together
from aoi_fl.docker.pki import make_client_key
from aoi_fl.lab.benchmarks.base import Row, alternate, ratio_row
from aoi_fl.science.age import ClientAge

CLIENTS = 1000
JOURNALS = {"delete": "a rollback journal", "wal": "a write-ahead log"}


class NodeDatabase:
    """Clients' states in one SQLite file, as durable as with :class:`StateFile`."""

    def __init__(self, folder, journal):
        folder.mkdir(parents=True, exist_ok=True)
        self.connection = sqlite3.connect(folder / "clients.sqlite", isolation_level=None)
        self.connection.execute(f"pragma journal_mode={journal}")
        self.connection.execute("pragma synchronous=full")
        self.connection.execute("create table if not exists states (name text primary key, state text) without rowid")

    def load(self, name):
        """Read a state."""
        for (found,) in self.connection.execute("select state from states where name = ?", (name,)):
            json.loads(found)

    def save(self, states):
        """Write states in one transaction."""
        rows = [(name, json.dumps(asdict(state))) for name, state in states.items()]
        self.connection.execute("begin immediate")
        self.connection.executemany("insert or replace into states values (?, ?)", rows)
        self.connection.execute("commit")

    def close(self):
        """Close the file, which merges a write-ahead log."""
        self.connection.close()


def run(data):
    """Compare files with a database, for one client that opens it each time and for many."""
    rounds = count(1)
    names = [f"client-{i}" for i in range(CLIENTS)]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)

        def one_file():
            file = StateFile(folder / "one", "pi-3")
            file.load(1)
            file.save(ClientState(1, ClientAge(next(rounds))))

        for journal, called in JOURNALS.items():

            def one_database(journal=journal):
                with closing(NodeDatabase(folder / journal, journal)) as database:
                    database.load("pi-3")
                    database.save({"pi-3": ClientState(1, ClientAge(next(rounds)))})

            ours, theirs = alternate(one_file, one_database, repeats=15)
            what = f"a client's state looked up and saved, as in a process of its own, beside SQLite with {called}"
            yield ratio_row(what, "opening the database, the same, closing it", 1, ours, theirs)

        many = NodeDatabase(folder / "many", "wal")
        with written_together() as write:

            def files():
                state = ClientAge(next(rounds))
                for name in names:
                    file = StateFile(folder / "files", name)
                    file.load(1)
                    file.save(ClientState(1, state))
                write()

            def database():
                state = ClientState(1, ClientAge(next(rounds)))
                for name in names:
                    many.load(name)
                many.save(dict.fromkeys(names, state))

            ours, theirs = alternate(files, database, repeats=5)
        many.close()
    what = f"{CLIENTS} clients' states in one process, as in a local run's first round, beside SQLite"
    yield ratio_row(what, "one transaction", None, ours, theirs)
    yield _gate()


def _gate():
    """Measure what an update through the owner's gate costs beyond one wait for the same disk."""
    with tempfile.TemporaryDirectory() as place:
        folder, rounds = Path(place), count(1)
        make_client_key(folder / "client.key", folder / "client.pub")
        gate = Gate({"max-updates": 10**6}, "link", Book(folder / "gate", signer(folder / "client.key")))
        reply = Content({"arrays": {"w": np.ones(1000)}}, {"metrics": {"num-examples": 1}})

        def update():
            arrival = Arrival("1", "train", str(next(rounds)), 64 * "a")
            gate.admit(arrival)
            gate.admit(whole := replace(arrival, content=Content({"arrays": {"w": np.zeros(1000)}})))
            gate.release(whole, reply, 8000)

        def wait():
            with open(folder / "waits", "ab") as file:
                file.write(bytes(600))
                file.flush()
                os.fsync(file.fileno())

        update()
        ours, theirs = alternate(update, wait, repeats=200)
    beyond = ours.seconds - theirs.seconds
    reference = f"one receipt's bytes and one fsync: {theirs.seconds * 1e3:.3g} ms"
    note = f"{beyond / theirs.seconds:.2g} of that write"
    details = {"ours": ours.summary(), "reference": theirs.summary()}
    what = "an update through the owner's gate, beyond its one wait for the disk"
    return Row(what, reference, 5, beyond * 1e3, "ms", note, details)
