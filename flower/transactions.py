"""Transactions of a SuperLink's database on one connection, without a session of SQLAlchemy's where none is needed.

Flower 1.34.0 makes a session for each transaction, and fetches a connection from a pool for it. Here threads take turns
at one connection. A transaction makes a session on this connection only if a method asks it for more than plain
statements.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flwr.supercore.sql_mixin import SqlMixin, _current_sessions
from sqlalchemy import exc

from aoi_fl.flower.superlink import TURN


class _Line:
    """The connection of a database, for one thread at a time."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._connection: Any = None

    @contextmanager
    def turn(self, engine: Any) -> Iterator[Any]:
        """Wait for the connection of this engine and lend it."""
        if not self._turn.acquire(timeout=TURN):
            raise exc.TimeoutError(f"the SuperLink's database was busy for {TURN:g} s")
        try:
            if self._connection is None or self._connection.closed or self._connection.invalidated:
                self._connection = engine.connect()
            yield self._connection
        finally:
            self._turn.release()


_lines: dict[object, _Line] = {}  # by the scope of Flower's sessions: a database, or a state in memory


class Transaction:
    """A transaction for plain statements; any method of SQLAlchemy's session turns it into one.

    SQLite's errors become SQLAlchemy's, which Flower's callers expect.

    Parameters
    ----------
    connection : SQLAlchemy's connection
    make_session : makes a session of a connection
    """

    def __init__(self, connection: Any, make_session: Any) -> None:
        self._connection, self._make_session = connection, make_session
        self._session: Any = None
        self._driver: sqlite3.Connection = connection.connection.driver_connection

    def __getattr__(self, name: str) -> Any:
        if self._session is None:
            self._session = self._make_session(bind=self._connection)
            self._session.begin()
        return getattr(self._session, name)

    def __call__(self, statement: str, *values: Any) -> list[Any]:
        """Return the rows of a plain statement, which runs after the session's statements."""
        if self._session is not None:
            self._session.flush()
        try:
            return self._driver.execute(statement, values).fetchall()
        except sqlite3.IntegrityError as error:
            raise exc.IntegrityError(statement, values, error) from error
        except sqlite3.OperationalError as error:
            raise exc.OperationalError(statement, values, error) from error

    def end(self, keep: bool) -> None:
        """Commit or roll back."""
        try:
            if self._session is not None:
                self._session.commit() if keep else self._session.rollback()
            self._driver.commit() if keep else self._driver.rollback()
        except sqlite3.OperationalError as error:
            self._driver.rollback()
            raise exc.OperationalError("COMMIT", (), error) from error
        finally:
            if self._session is not None:
                self._session.close()


class InTurns(SqlMixin):
    """A state with our transactions; a state and its object store have one connection.

    A transaction within another one is a part of it, as in Flower.
    """

    @contextmanager
    def session(self) -> Iterator[Any]:
        """Hold a transaction for the length of the block; an error rolls it back."""
        sessions: dict[object, Any] = _current_sessions.get() or {}
        scope = self._session_scope
        if scope in sessions:
            yield sessions[scope]
            return
        with _lines.setdefault(scope, _Line()).turn(self._engine) as connection:
            transaction, keep = Transaction(connection, self._session_factory), False
            token = _current_sessions.set({**sessions, scope: transaction})  # type: ignore[dict-item]
            try:
                yield transaction
                keep = True
            finally:
                _current_sessions.reset(token)
                transaction.end(keep)
