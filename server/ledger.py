"""The ledger of a run: one SQLite file, one transaction per round.

Tables
------
run             key, value (JSON):
                ``config``: every run key; ``run``: the run's name;
                ``status``: running, completed, interrupted, failed or stopped (too few clients); ``reason``: why it
                failed, stopped, or completed before the last round; ``since``: begin of the status, seconds since 1970;
                ``policy``: its parameters, for Markov policies clients, per_round and probabilities, for budgeted ones
                budget, index and total_budget if set;
                ``initial_loss`` and ``initial_accuracy`` (or ``initial_rmse``): of the first model;
                ``test_examples``: of the data set; ``yardstick``: the metric of the best constant prediction;
                ``model_bytes``: of the first model; ``test_by_client``: the last model's metric on each client's test
                examples, or the last one that each client measured, by name;
                ``model_source``, ``clock_source``, ``data_source``, ``partition_source``, ``table_source``,
                ``rates_source``: digests of the files of the user's model, the trace, the data set, the partition and
                the clients, or empty;
                ``nodes``: in a deployment ``connected`` at the last roll call, and ``refused`` with reasons;
                ``begun``: distinguishes the run from another of its name, for its checkpoints;
                ``token``: distinguishes the run from an earlier one of its name, for a deployment's clients.
                A killed run stays ``running``; the lock on its folder shows whether a process runs it
                (:func:`aoi_fl.server.folder.is_played`).
clients         one row per client: ``client`` (number from 0), name, since, examples, payment, sensitivity, data_age
rounds          one row per round, from 1: the fields of :class:`aoi_fl.protocol.records.RoundRecord`, ``metrics`` as
                JSON
participations  one row for each client that trained, failed, was late, was refused, or declined by its owner's rule:
                the fields of :class:`aoi_fl.protocol.records.Participation`, and ``round``
"""

import json
import shlex
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeAlias

from aoi_fl.config.policies import Keys
from aoi_fl.protocol.records import NO_COLUMNS, ClientRecord, Participation, RoundRecord
from aoi_fl.science.errors import ConfigError, StorageError

Row: TypeAlias = dict[str, Any]
"""A row of a table, by its columns."""
About: TypeAlias = dict[str, Any]
"""The table ``run`` by its keys."""

_PART = [f.name for f in fields(Participation)]
_TABLES = {
    "run": ["key", "value"],
    "clients": [f.name for f in fields(ClientRecord)],
    "rounds": [f.name for f in fields(RoundRecord) if f.name not in NO_COLUMNS],
    "participations": ["round", *_PART],
}

# Errors of reads of a damaged ledger, and of work with its values.
DAMAGE = (
    sqlite3.Error,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)
_LONGEST_READ = 30.0  # seconds: a forged ledger may refer to itself without end
_LARGEST_VALUE = 2**24  # bytes of one value
_SMALLEST_ROW = 4  # bytes of a row in the file, at least

_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS run (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS clients ({", ".join(_TABLES["clients"])}, PRIMARY KEY (client));
CREATE TABLE IF NOT EXISTS rounds ({", ".join(_TABLES["rounds"])}, PRIMARY KEY (round));
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
    """Return status and reason of a run's end: interrupted, failed, stopped or completed.

    ``complete`` is the reason for an end before the last round.
    """
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return {"status": "interrupted", "reason": "the process received a request to stop"}
    if error is not None:
        return {"status": "failed", "reason": " ".join(f"{type(error).__name__}: {error}".split())}
    return {"status": "stopped" if stopped else "completed", "reason": stopped or complete}


def planned(config: Keys) -> int | None:
    """Return a configuration's number of rounds; None if simulated time ends the run.

    Examples
    --------
    >>> planned({"num-server-rounds": 50, "until": 0.0}), planned({"num-server-rounds": 1_000_000, "until": 3600.0})
    (50, None)
    """
    return None if config.get("until") else config.get("num-server-rounds")


def refused_clients(about: About) -> list[str]:
    """Return the reasons why connected clients cannot join, from the ledger's ``run`` table."""
    nodes = about.get("nodes")
    refused = nodes.get("refused") if isinstance(nodes, dict) else None
    return [str(why) for why in refused] if isinstance(refused, list) else []


def resume_command(folder: Path) -> str:
    """Return the command that resumes the run in a folder, for this shell."""
    here = folder.resolve().parent == Path("runs").resolve()
    return f"aoi resume {shlex.quote(folder.name if here else str(folder))}"


def make_room(folder: Path) -> str:
    """Return the remedy if the disk of a run's folder is full or fails."""
    return (
        "Free some space, or make the disk writable, then continue with: "
        f"{resume_command(folder)} (a cluster: AOI_RESUME=true)"
    )


class Ledger:
    """The ledger of one run, open for writing; :func:`read` reads it from any process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._db = sqlite3.connect(path, isolation_level="IMMEDIATE")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}COMMIT;")
        except sqlite3.Error as error:
            remedy = "Check that the folder can be written and has room, or choose another with runs-dir."
            raise ConfigError("runs-dir", path, f"a place where a ledger can be opened ({error})", remedy) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._db:
                yield self._db
        except sqlite3.Error as error:
            raise StorageError(
                f"the ledger {self.path} cannot be written: {error}. The rounds in it are complete. "
                f"{make_room(self.path.parent)}"
            ) from error

    def note(self, **values: Any) -> None:
        """Write keys of the ``run`` table, each value as JSON; a status also sets ``since``."""
        if "status" in values:
            values["since"] = time.time()
        with self._transaction() as db:
            _write_notes(db, values)

    def add_clients(self, clients: list[ClientRecord]) -> None:
        """Add or update clients."""
        with self._transaction() as db:
            _write(db, "clients", map(vars, clients))

    def add_round(self, record: RoundRecord) -> None:
        """Add a finished round with its participations in one transaction; replace a repeated one."""
        with self._transaction() as db:
            db.execute("DELETE FROM participations WHERE round = ?", (record.round,))
            _write(db, "rounds", [vars(record) | {"metrics": json.dumps(record.metrics)}])
            _write(db, "participations", [{"round": record.round} | vars(part) for part in record.participations])
            notes = {} if record.nodes is None else {"nodes": asdict(record.nodes)}
            if record.by_client:
                former = db.execute("SELECT value FROM run WHERE key = 'test_by_client'").fetchone()
                notes["test_by_client"] = (json.loads(former[0]) if former else {}) | record.by_client
            _write_notes(db, notes)

    def forget_after(self, round_: int) -> None:
        """Remove the rounds after this one, which will run again."""
        with self._transaction() as db:
            for table in ("rounds", "participations"):
                db.execute(f"DELETE FROM {table} WHERE round > ?", (round_,))

    def close(self) -> None:
        """Close the ledger, and merge its log into the one file."""
        with suppress(sqlite3.Error):  # another process may read it now
            self._db.execute("PRAGMA busy_timeout=500")
            self._db.execute("PRAGMA journal_mode=DELETE")
        self._db.close()


def _write(db: sqlite3.Connection, table: str, rows: Iterable[Row]) -> None:
    columns = _TABLES[table]
    values = ", ".join(f":{column}" for column in columns)
    db.executemany(f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({values})", rows)


def _write_notes(db: sqlite3.Connection, notes: About) -> None:
    _write(db, "run", [{"key": key, "value": json.dumps(note)} for key, note in notes.items()])


def read(path: Path, table: str, after: int = 0, last: int = -1) -> list[Row]:
    """Return rows of ``rounds``, ``clients`` or ``participations`` as dicts, in order.

    A run may write meanwhile. ``after`` skips the rows of all rounds up to that one; ``last`` is how many rows are
    returned at most, the latest ones.
    """
    orders = {"rounds": "round DESC", "clients": "client DESC", "participations": "round DESC, client DESC"}
    wanted, values = ("WHERE round > ?", [after]) if after else ("", [])
    return _rows(path, table, f"SELECT * FROM {table} {wanted} ORDER BY {orders[table]} LIMIT ?", *values, last)[::-1]


def records(path: Path, after: int) -> list[RoundRecord]:
    """Return the rounds after a round, with their participations."""
    parts: dict[int, list[Participation]] = {}
    rounds = read(path, "rounds", after)
    for row in read(path, "participations", after):
        parts.setdefault(row["round"], []).append(Participation(**{name: row[name] for name in _PART}))
    return [RoundRecord(**row, participations=parts.get(row["round"], [])) for row in rounds]


def progress(path: Path) -> tuple[int, int | None, float | None]:
    """Return the number of recorded rounds, the last round, and the first one's begin in seconds since 1970."""
    with _reading(path) as db:
        count, last, started = db.execute("SELECT count(*), max(round), min(started) FROM rounds").fetchone()
    return count, last, None if started is None else float(started)


def totals(path: Path) -> dict[str, float]:
    """Return sums over all rounds: ``messages``, ``spent``, ``empty``, ``forced`` and outcomes.

    ``clients`` is the number of clients so far, ``reached`` the number of those with a training. ``trained``,
    ``failed``, ``late``, ``refused`` and ``declined`` count participations, and are present if they occurred. ``spent``
    is present under a budget.
    """
    reached = "client IN (SELECT client FROM participations WHERE outcome = 'trained')"
    sums = (
        "SELECT sum(messages) AS messages, sum(spent) AS spent, sum(empty) AS empty, sum(forced) AS forced, "
        "(SELECT count(*) FROM clients) AS clients, "
        f"(SELECT count(*) FROM clients WHERE {reached}) AS reached FROM rounds"
    )
    with _reading(path) as db:
        of_rounds = {name: value for name, value in dict(db.execute(sums).fetchone()).items() if value is not None}
        outcomes = db.execute("SELECT outcome, count(*) FROM participations GROUP BY outcome")
        return of_rounds | {outcome: count for outcome, count in outcomes}


def accounts(path: Path) -> list[Row]:
    """Return a row for each client, by number, with its totals over all rounds.

    A row has the columns of ``clients`` and ``took_part`` (number of trainings), ``last`` (round of the last one),
    ``seen`` (last round with a reply, or the first with the client), ``missed`` (rounds in which it failed, was late or
    was refused), ``reason`` (of the last of these), and ``next_round`` (its reservation, if any).
    """
    return _rows(path, "clients", _ACCOUNTS)


def read_run(path: Path) -> About:
    """Return the ``run`` table as one dict, its JSON values decoded."""
    return {str(row["key"]): _decoded(row["value"]) for row in _rows(path, "run", "SELECT * FROM run")}


def _decoded(text: str) -> Any:
    value = json.loads(text)
    if "\\ud" in text.lower():  # an unpaired surrogate, which cannot be encoded
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _rows(path: Path, table: str, query: str, *values: int) -> list[Row]:
    """Return the rows that a query finds, with every column of a table; those that an earlier version lacks are None.

    Raises DatabaseError if there are more rows than fit the file's size.
    """
    columns, found = dict.fromkeys(_TABLES[table]), list[Row]()
    with _reading(path) as db:
        rows = db.execute(query, values)
        names = [name for name, *_ in rows.description]
        most = sum(file.stat().st_size for file in _files(path)) // _SMALLEST_ROW
        for row in rows:
            if len(found) > most:
                raise sqlite3.DatabaseError(f"{table} has more rows than the file has room for")
            found.append(columns | dict(zip(names, row, strict=True)))
    return [row | {"metrics": _decoded(row["metrics"] or "{}")} if "metrics" in row else row for row in found]


def _files(path: Path) -> list[Path]:
    """Return the ledger and its write-ahead log, each if it is not empty."""
    return [file for file in (path, path.with_name(f"{path.name}-wal")) if file.is_file() and file.stat().st_size]


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a ledger for reading, even in a read-only folder.

    Raises
    ------
    ConfigError : there is no ledger.
    sqlite3.Error
        The ledger is damaged: it is no database, has other tables than a run's, or a read does not end.
    """
    if not path.is_file():
        allowed = f"the folder of a run, with {path.name}, or the name of a run under runs/"
        raise ConfigError("run", path.parent, allowed, "Check the name.")
    with ExitStack() as stack:
        try:
            db = stack.enter_context(_opened(path, "mode=ro"))
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise
            # SQLite needs a writable folder for the index of a write-ahead log.
            if len(files := _files(path)) > 1:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                for file in files:
                    shutil.copy(file, folder)
                path = folder / path.name
            db = stack.enter_context(_opened(path, "mode=rw" if len(files) > 1 else "immutable=1"))
        try:
            yield db
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            raise sqlite3.DatabaseError(f"it cannot be read within {_LONGEST_READ:g} s") from error


@contextmanager
def _opened(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """Open an untrusted file: no function of its schema runs, and each read has a time limit."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)) as db:
        db.row_factory = sqlite3.Row
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE)
        end = time.monotonic() + _LONGEST_READ
        db.set_progress_handler(lambda: time.monotonic() > end, 100_000)
        db.execute("PRAGMA trusted_schema=OFF")
        _check_schema(db)
        yield db


def _check_schema(db: sqlite3.Connection) -> None:
    """Raise DatabaseError if a table is missing, a view or computed, or if there is a trigger.

    A file without tables is a new one.
    """
    schema = {row["name"]: row for row in db.execute("SELECT name, type, sql FROM sqlite_master")}
    if not schema:
        return
    for name, row in schema.items():
        if row["type"] == "trigger":
            raise sqlite3.DatabaseError(f"it has the trigger {name}, which no run has")
    for table in _TABLES:
        if table not in schema:
            raise sqlite3.DatabaseError(f"it lacks the table {table}")
        row = schema[table]
        if row["type"] != "table" or str(row["sql"]).upper().startswith("CREATE VIRTUAL"):
            raise sqlite3.DatabaseError(f"{table} is no table")
        if computed := [c["name"] for c in db.execute(f"PRAGMA table_xinfo({table})") if c["hidden"]]:
            raise sqlite3.DatabaseError(f"{table} computes its column {computed[0]}")
