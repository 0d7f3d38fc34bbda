"""Transactions of a SuperLink's database on one connection, without a session of SQLAlchemy's where none is needed.

Flower 1.34.0 makes a session for each transaction, and fetches a connection from a pool for it. Here threads take turns
at one connection. A transaction makes a session on this connection only if a method asks it for more than plain
statements.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any

TURN = 60.0  # seconds that a call waits for its turn at the database
_LINE = "_aoi_line"  # attribute of an object store: the line of its database


class _Line:
    """The connection of a database, for one thread at a time."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._connection: Any = None

    @contextmanager
    def turn(self, engine: Any) -> Iterator[Any]:
        """Wait for the connection of this engine and lend it."""
        from sqlalchemy.exc import TimeoutError as Waited

        if not self._turn.acquire(timeout=TURN):
            raise Waited(f"the SuperLink's database was busy for {TURN:g} s")
        try:
            if self._connection is None or self._connection.closed or self._connection.invalidated:
                self._connection = engine.connect()
            yield self._connection
        finally:
            self._turn.release()


class Transaction:
    """A transaction for plain statements; any method of SQLAlchemy's session turns it into one.

    Parameters
    ----------
    connection : SQLAlchemy's connection
    make_session : makes a session of a connection
    """

    def __init__(self, connection: Any, make_session: Callable[..., Any]) -> None:
        self._connection, self._make_session = connection, make_session
        self._session: Any = None
        self._driver: sqlite3.Connection = connection.connection.driver_connection

    def __getattr__(self, name: str) -> Any:
        if self._session is None:
            self._session = self._make_session(bind=self._connection)
            self._session.begin()
        return getattr(self._session, name)

    @property
    def driver(self) -> sqlite3.Connection:
        """The connection for plain statements, after the session's statements."""
        if self._session is not None:
            self._session.flush()
        return self._driver

    def end(self, keep: bool) -> None:
        """Commit or roll back."""
        from sqlalchemy import exc

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


def in_turns(flowers: Callable[[Any], AbstractContextManager[Any]]) -> Callable[[Any], AbstractContextManager[Any]]:
    """Return a method that replaces a state's ``session``; a database in memory keeps Flower's.

    A state and its object store have one connection. A transaction within another one is a part of it, as in Flower.
    """
    from flwr.supercore.sql_mixin import _current_sessions as current

    @wraps(flowers)
    @contextmanager
    def session(self: Any) -> Iterator[Any]:
        sessions = current.get() or {}
        if self._is_in_memory_sqlite or self._session_factory is None or self._session_scope in sessions:
            with flowers(self) as theirs:
                yield theirs
            return
        line: _Line = vars(getattr(self, "object_store", self)).setdefault(_LINE, _Line())
        with line.turn(self._engine) as connection:
            transaction, keep = Transaction(connection, self._session_factory), False
            token = current.set({**sessions, self._session_scope: transaction})  # type: ignore[dict-item]
            try:
                yield transaction
                keep = True
            finally:
                current.reset(token)
                transaction.end(keep)

    return session
