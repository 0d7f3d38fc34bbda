"""The ledger of a run: one SQLite file, one transaction a round.

Tables
------
run             key, value (JSON): ``config`` (every run key), ``run`` (our own name of the run), ``status``
                (running, completed, interrupted; failed, stopped for want of clients, and completed before the last
                round, with a ``reason``), ``since`` (when that status began, seconds since 1970), ``policy`` (for the
                Markov policies: clients, per_round, probabilities; for the budgeted ones: budget, index, and
                total_budget where there is one), ``initial_loss`` and ``initial_accuracy`` (or ``initial_rmse``) of the
                first model, ``model_source`` (the digest of the file that makes a model of one's own, else empty),
                ``clock_source`` (that of a trace's files, else empty), ``data_source``, ``partition_source``,
                ``table_source`` and ``rates_source`` (those of the data set's, the partition's and the clients' files),
                ``token`` (by which the clients of a deployment tell it from an earlier run of its name). A run that was
                killed stays ``running``: whether somebody plays it, the lock on its folder says
                (:func:`aoi_fl.server.folder.is_played`).
clients         one row a client: ``client`` (number from 0), name, since, examples, payment, sensitivity, data_age
rounds          one row a round, from 1: the fields of :class:`aoi_fl.strategies.records.RoundRecord`
participations  one row for each client that trained, failed, was late or was refused in a round, or declined by a rule
                of its owner's: the fields of :class:`aoi_fl.strategies.records.Participation`, and ``round``
"""

import json
import shlex
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from aoi_fl.science.errors import ConfigError, StorageError
from aoi_fl.strategies.records import ClientRecord, Participation, RoundRecord

_ROUND = [f.name for f in fields(RoundRecord) if f.name != "participations"]
_PART = [f.name for f in fields(Participation)]
_CLIENT = [f.name for f in fields(ClientRecord)]
_FORMER = {"weight": "sensitivity"}  # columns of clients as versions until 0.1 called them

_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS run (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS clients ({", ".join(_CLIENT)}, PRIMARY KEY (client));
CREATE TABLE IF NOT EXISTS rounds ({", ".join(_ROUND)}, PRIMARY KEY (round));
CREATE TABLE IF NOT EXISTS participations (round INTEGER NOT NULL, {", ".join(_PART)}, PRIMARY KEY (round, client));
"""

_ACCOUNTS = """
WITH parts AS (
  SELECT *, outcome = 'trained' AS took, outcome IN ('failed', 'late', 'refused') AS lost FROM participations
),
sums AS (
  SELECT client, sum(took) AS took_part, max(CASE WHEN took THEN round END) AS last,
    max(CASE WHEN outcome <> 'late' THEN round END) AS answered, sum(lost) AS missed,
    max(CASE WHEN lost THEN round END) AS lost_in
  FROM parts GROUP BY client
)
SELECT clients.*, coalesce(took_part, 0) AS took_part, last, max(since, coalesce(answered, 0)) AS seen,
  coalesce(missed, 0) AS missed,
  (SELECT reason FROM parts WHERE parts.client = clients.client AND round = lost_in) AS reason,
  (SELECT next_round FROM parts WHERE parts.client = clients.client AND round = last) AS next_round
FROM clients LEFT JOIN sums USING (client) ORDER BY client
"""


def ending(stopped: str | None, error: BaseException | None, complete: str | None = None) -> dict[str, str | None]:
    """Return what to note of a run's end: a reason to stop or an error ended it, or, with neither, it is complete.

    ``complete`` says why, where that is not for its last round.
    """
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return {"status": "interrupted", "reason": "the process that played it was asked to end"}
    if error is not None:
        return {"status": "failed", "reason": " ".join(f"{type(error).__name__}: {error}".split())}
    return {"status": "stopped" if stopped else "completed", "reason": stopped or complete}


def planned(config: Mapping[str, Any]) -> int | None:
    """Return how many rounds a run has by its configuration; None where simulated time ends it, or nobody says.

    Examples
    --------
    >>> planned({"num-server-rounds": 50, "until": 0.0}), planned({"num-server-rounds": 1_000_000, "until": 3600.0})
    (50, None)
    """
    return None if config.get("until") else config.get("num-server-rounds")


def resume_command(folder: Path) -> str:
    """Return the command that goes on with the run in a folder, as it is to be typed here."""
    here = folder.resolve().parent == Path("runs").resolve()
    return f"aoi resume {shlex.quote(folder.name if here else str(folder))}"


def make_room(folder: Path) -> str:
    """Return the remedy when the disk on which a run's folder lies is full or fails."""
    return (
        "Make room, or see that the disk can be written, then continue with: "
        f"{resume_command(folder)} (a cluster: AOI_RESUME=true)"
    )


class Ledger:
    """The record of one run, open for writing; use :func:`read` to look at it from elsewhere."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._db = sqlite3.connect(path, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.executescript(_SCHEMA)
            self._renew()
        except sqlite3.Error as error:
            raise ConfigError(
                "runs-dir",
                path,
                f"a place where a ledger can be opened ({error})",
                "Check that the folder can be written and has room, or choose another with runs-dir.",
            ) from error

    def _renew(self) -> None:
        """Bring a ledger that an earlier version began to the columns of this one."""
        clients, rounds, parts = (
            {row[1] for row in self._db.execute(f"PRAGMA table_info({table})")}
            for table in ("clients", "rounds", "participations")
        )
        for old in clients & _FORMER.keys():
            self._db.execute(f"ALTER TABLE clients RENAME COLUMN {old} TO {_FORMER[old]}")
        for new in sorted(set(_ROUND) - rounds):
            self._db.execute(f"ALTER TABLE rounds ADD COLUMN {new}")
        for new in sorted(set(_PART) - parts):
            self._db.execute(f"ALTER TABLE participations ADD COLUMN {new}")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:  # SQLite itself rolls back when the disk is full
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise StorageError(
                    f"the ledger {self.path} cannot be written: {error}. The rounds in it are complete. "
                    f"{make_room(self.path.parent)}"
                ) from error
            raise

    def note(self, **values: Any) -> None:
        """Write keys of the ``run`` table, each value as JSON; a status brings the time since when it holds."""
        if "status" in values:
            values["since"] = time.time()
        with self._transaction() as db:
            db.executemany("INSERT OR REPLACE INTO run VALUES (?, ?)", [(k, json.dumps(v)) for k, v in values.items()])

    def add_clients(self, clients: list[ClientRecord]) -> None:
        """Add clients, or renew what is known of them."""
        with self._transaction() as db:
            db.executemany(_insert("clients", _CLIENT), [_row(c, _CLIENT) for c in clients])

    def add_round(self, record: RoundRecord) -> None:
        """Add one finished round with its participations, whole or not at all; a repeated round replaces itself."""
        with self._transaction() as db:
            db.execute("DELETE FROM participations WHERE round = ?", (record.round,))
            db.execute(_insert("rounds", _ROUND), _row(record, _ROUND))
            db.executemany(
                _insert("participations", ["round", *_PART]),
                [(record.round, *_row(p, _PART)) for p in record.participations],
            )

    def forget_after(self, round_: int) -> None:
        """Take back the rounds after this one, which are to be played again."""
        with self._transaction() as db:
            for table in ("rounds", "participations"):
                db.execute(f"DELETE FROM {table} WHERE round > ?", (round_,))

    def close(self) -> None:
        """Close the file; what was written stays."""
        self._db.close()


def _row(record: Any, columns: list[str]) -> list[Any]:
    return [getattr(record, name) for name in columns]


def _insert(table: str, columns: list[str]) -> str:
    return f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def read(path: Path, table: str, after: int = 0) -> list[dict[str, Any]]:
    """Return the rows of ``rounds``, ``clients`` or ``participations`` as dicts, in order; safe while a run writes.

    ``after`` leaves out the rows of all rounds up to one.
    """
    orders = {"rounds": "round", "clients": "client", "participations": "round, client"}
    with closing(_open(path)) as db:
        wanted = "WHERE round > :after" if after else ""
        rows = db.execute(f"SELECT * FROM {table} {wanted} ORDER BY {orders[table]}", {"after": after})
        names = [name for name, *_ in rows.description]
        if table == "clients":
            names = [_FORMER.get(name, name) for name in names]
        return [dict(zip(names, row, strict=True)) for row in rows]


def last_rounds(path: Path, number: int) -> list[dict[str, Any]]:
    """Return the last rows of ``rounds``, as many as there are up to a number, in order."""
    with closing(_open(path)) as db:
        rows = db.execute("SELECT * FROM rounds ORDER BY round DESC LIMIT ?", (number,))
        return [dict(row) for row in rows][::-1]


def totals(path: Path) -> dict[str, float]:
    """Return what the rounds sum up to: ``messages``, ``spent``, ``empty`` and ``forced`` rounds, and the outcomes.

    ``clients`` and ``reached`` are how many clients the run has met, and how many of them have trained. The outcomes of
    participations, ``trained``, ``failed``, ``late``, ``refused`` and ``declined``, are there if they occurred;
    ``spent`` only where a budget is.
    """
    reached = "client IN (SELECT client FROM participations WHERE outcome = 'trained')"
    sums = (
        "SELECT sum(messages) AS messages, sum(spent) AS spent, sum(empty) AS empty, sum(forced) AS forced, "
        "(SELECT count(*) FROM clients) AS clients, "
        f"(SELECT count(*) FROM clients WHERE {reached}) AS reached FROM rounds"
    )
    with closing(_open(path)) as db:
        of_rounds = {name: value for name, value in dict(db.execute(sums).fetchone()).items() if value is not None}
        outcomes = db.execute("SELECT outcome, count(*) FROM participations GROUP BY outcome")
        return of_rounds | {outcome: count for outcome, count in outcomes}


def accounts(path: Path) -> list[dict[str, Any]]:
    """Return a row for each client, by number: what it declared, and what the rounds say of it.

    To the columns of ``clients`` come ``took_part`` (rounds that it trained in), ``last`` (the last of these), ``seen``
    (the last round in which it answered in any way, or was first met), ``missed`` (rounds that it failed in, was late
    in or was refused in), ``reason`` of the last of these, and ``next_round``, which it has reserved, where it has.
    """
    with closing(_open(path)) as db:
        return [dict(row) for row in db.execute(_ACCOUNTS)]


def read_round(path: Path, number: int) -> list[dict[str, Any]]:
    """Return the rows of ``participations`` of one round as dicts, by client."""
    with closing(_open(path)) as db:
        rows = db.execute("SELECT * FROM participations WHERE round = ? ORDER BY client", (number,))
        return [dict(row) for row in rows]


def read_run(path: Path) -> dict[str, Any]:
    """Return the ``run`` table as one dict, its JSON values decoded."""
    with closing(_open(path)) as db:
        return {row["key"]: json.loads(row["value"]) for row in db.execute("SELECT key, value FROM run")}


def _open(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        raise ConfigError(
            "run", path, f"the folder of a run, with {path.name}, or the name of a run under runs/", "Check the name."
        )
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    db.row_factory = sqlite3.Row
    return db
