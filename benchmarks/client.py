"""What a client waits for to answer, against the libraries that could have done it: SQLite for its state, pydantic."""

import json
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Annotated

from flwr.app import ConfigRecord
from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

from aoi_fl.client.state import ClientState, StateFile, written_together
from aoi_fl.protocol import ParticipationReply
from aoi_fl.science.age import ClientAge
from benchmarks.base import ROOT, Row, Times, alternate, ratio_row

CLIENTS = 1000
JOURNALS = {"delete": "a rollback journal", "wal": "a write-ahead log"}
Name = Annotated[str, Field(strict=True)]
Whole = Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]
Real = Annotated[float, Field(strict=True, allow_inf_nan=False)]


@dataclass(frozen=True, config=ConfigDict(alias_generator=lambda name: name.replace("_", "-")))
class Read:
    """:class:`aoi_fl.protocol.ParticipationReply`, for pydantic to check."""

    name: Name
    takes_part: Annotated[bool, Field(strict=True)]
    age: Annotated[Whole, Field(ge=0)]
    next_round: Whole | None = None
    compression: Name | None = None
    scales: tuple[Real, ...] = ()
    rule: Name | None = None


def run(data: Path) -> Iterator[Row]:
    """Measure states, records and imports."""
    yield from _states()
    yield _records()
    yield _imports()


class Database:
    """Clients' states in one SQLite file, as safe as :class:`StateFile` makes them."""

    def __init__(self, folder: Path, journal: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.connection = sqlite3.connect(folder / "clients.sqlite", isolation_level=None)
        self.connection.execute(f"pragma journal_mode={journal}")
        self.connection.execute("pragma synchronous=full")
        self.connection.execute("create table if not exists states (name text primary key, state text) without rowid")

    def load(self, name: str) -> None:
        """Look a state up."""
        for (found,) in self.connection.execute("select state from states where name = ?", (name,)):
            json.loads(found)

    def save(self, states: dict[str, ClientState]) -> None:
        """Write states in one transaction."""
        rows = [(name, json.dumps(asdict(state))) for name, state in states.items()]
        self.connection.execute("begin immediate")
        self.connection.executemany("insert or replace into states values (?, ?)", rows)
        self.connection.execute("commit")

    def close(self) -> None:
        """Close the file, which ends a write-ahead log."""
        self.connection.close()


def _states() -> Iterator[Row]:
    """Compare files with a database: one client that opens it anew each time, and many in one process."""
    rounds = count(1)
    names = [f"client-{i}" for i in range(CLIENTS)]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)

        def one_file() -> None:
            file = StateFile(folder / "one", "pi-3")
            file.load(1)
            file.save(ClientState(1, ClientAge(next(rounds))))

        for journal, called in JOURNALS.items():

            def one_database(journal: str = journal) -> None:
                with closing(Database(folder / journal, journal)) as database:
                    database.load("pi-3")
                    database.save({"pi-3": ClientState(1, ClientAge(next(rounds)))})

            ours, theirs = alternate(one_file, one_database, repeats=15)
            what = f"a client's state looked up and saved, as in a process of its own, beside SQLite with {called}"
            yield ratio_row(what, "opening the database, the same, closing it", 1, ours, theirs)

        many = Database(folder / "many", "wal")
        with written_together() as write:

            def files() -> None:
                state = ClientAge(next(rounds))
                for name in names:
                    file = StateFile(folder / "files", name)
                    file.load(1)
                    file.save(ClientState(1, state))
                write()

            def database() -> None:
                state = ClientState(1, ClientAge(next(rounds)))
                for name in names:
                    many.load(name)
                many.save(dict.fromkeys(names, state))

            ours, theirs = alternate(files, database, repeats=5)
        many.close()
    what = f"{CLIENTS} clients' states in one process, as in a local run's first round, beside SQLite"
    yield ratio_row(what, "one transaction", None, ours, theirs)


def _records() -> Row:
    said = [ConfigRecord(ParticipationReply(f"client-{i}", i % 3 == 0, i % 17, i).write()) for i in range(CLIENTS)]
    read = TypeAdapter(Read).validate_python
    ours, theirs = alternate(
        lambda: [ParticipationReply.read(record) for record in said],
        lambda: [read(dict(record)) for record in said],
        repeats=15,
    )
    return ratio_row(f"{CLIENTS} answers read and checked", "pydantic, the same checks", None, ours, theirs)


def _imports() -> Row:
    ours, theirs = Times([], []), Times([], [])
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", _IMPORTING], cwd=ROOT, capture_output=True, text=True, check=True)
        for found, (wall, cpu) in zip((ours, theirs), json.loads(done.stdout), strict=True):
            found.wall.append(wall)
            found.cpu.append(cpu)
    what = "all of ours that a client imports to answer a question, beside pydantic"
    return ratio_row(what, "importing pydantic after it", None, ours, theirs)


# The collector would take as long as either, and fall into the one or the other by chance.
_IMPORTING = """
import gc, json, time
import flwr.clientapp
gc.disable()
def clocks():
    return time.perf_counter(), time.process_time()
begun = clocks()
import aoi_fl.client.app
between = clocks()
from pydantic import TypeAdapter
times = begun, between, clocks()
print(json.dumps([[b - a for a, b in zip(one, other)] for one, other in zip(times, times[1:])]))
"""
