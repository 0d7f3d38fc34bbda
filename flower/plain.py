"""Plain SQLite statements that replace SQLAlchemy's in a SuperLink's most frequent methods.

Each function replaces the method of the same name in Flower 1.34.0: the same statements in the same transaction, so
results and tables are the same. SQLite's errors become SQLAlchemy's, which Flower's callers expect.
"""

import json
import logging
import sqlite3
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from aoi_fl.flower.transactions import Transaction


class Database:
    """The connection of a session, for statements in its transaction."""

    def __init__(self, session: Any) -> None:
        if isinstance(session, Transaction):
            self._connection = session.driver
            return
        session.flush()
        self._connection = session.connection().connection.driver_connection

    def __call__(self, statement: str, *values: Any) -> list[Any]:
        """Return the rows of a statement."""
        from sqlalchemy import exc

        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.IntegrityError as error:
            raise exc.IntegrityError(statement, values, error) from error
        except sqlite3.OperationalError as error:
            raise exc.OperationalError(statement, values, error) from error


def signed(number: int) -> int:
    """Return the number that a database has for an id of 64 bits."""
    return number - 2**64 if number >= 2**63 else number


def unsigned(number: int) -> int:
    """Return the id of 64 bits for a database's number."""
    return number + 2**64 if number < 0 else number


def now() -> datetime:
    """Return the SuperLink's time."""
    from flwr.supercore import date

    return date.now()


# Objects ----------------------------------------------------------------------------------------------------------


def preregister(self: Any, run_id: int, object_tree: Any) -> list[str]:
    """Register the objects of a tree and return the missing ones."""
    from flwr.supercore.inflatable.inflatable_object import is_valid_sha256_hash, iterate_object_tree

    parts = list(iterate_object_tree(object_tree))
    for part in parts:
        if not is_valid_sha256_hash(part.object_id):
            raise ValueError(f"Invalid object ID format: {part.object_id}")
    missing = []
    with self._mutation_session() as session:
        run = Database(session)
        for part in parts:
            number, children = part.object_id, [child.object_id for child in part.children]
            if len(children) != len(set(children)):
                raise ValueError(f"Object {number} has duplicate children.")
            if run(
                "INSERT INTO objects (object_id, content, is_available, ref_count) VALUES (?, x'', 0, 0) "
                "ON CONFLICT (object_id) DO NOTHING RETURNING object_id",
                number,
            ):
                missing.append(number)
                for child in children:
                    run("INSERT INTO object_children (parent_id, child_id) VALUES (?, ?)", number, child)
                    run("UPDATE objects SET ref_count = ref_count + 1 WHERE object_id = ?", child)
            else:
                if run("SELECT 1 FROM objects WHERE object_id = ? AND is_available = 0", number):
                    missing.append(number)
                known = run("SELECT child_id FROM object_children WHERE parent_id = ?", number)
                if {child for (child,) in known} != set(children):
                    raise ValueError(f"Object {number} was preregistered with different children.")
            run(
                "INSERT INTO run_objects (run_id, object_id) VALUES (?, ?) ON CONFLICT DO NOTHING",
                signed(run_id),
                number,
            )
    return missing


def get_object_tree(self: Any, object_id: str) -> Any:
    """Return the tree of an object."""
    from flwr.proto.message_pb2 import ObjectTree
    from flwr.supercore.object_store import NoObjectInStoreError

    with self.session() as session:
        run = Database(session)

        def tree(number: str) -> Any:
            if not run("SELECT object_id FROM objects WHERE object_id = ?", number):
                raise NoObjectInStoreError(f"Object {number} was not pre-registered.")
            try:
                children = run("SELECT child_id FROM object_children WHERE parent_id = ?", number)
                return ObjectTree(object_id=number, children=[tree(child) for (child,) in children])
            except NoObjectInStoreError as error:
                raise NoObjectInStoreError(
                    f"Object tree for object ID '{number}' contains missing children. This may indicate a corrupted "
                    "object store."
                ) from error

        return tree(object_id)


def put(self: Any, object_id: str, object_content: bytes) -> None:
    """Store an object's content."""
    from flwr.supercore.inflatable.inflatable_object import get_object_id
    from flwr.supercore.inflatable.inflatable_utils import validate_object_content
    from flwr.supercore.object_store import NoObjectInStoreError

    if self.verify:
        if object_id != get_object_id(object_content):
            raise ValueError(f"Object ID {object_id} does not match content hash")
        validate_object_content(content=object_content)
    with self.session() as session:
        run = Database(session)
        stored = run(
            "UPDATE objects SET content = ?, is_available = 1 WHERE object_id = ? AND is_available = 0 "
            "RETURNING object_id",
            object_content,
            object_id,
        )
        if not stored and not run("SELECT object_id FROM objects WHERE object_id = ?", object_id):
            raise NoObjectInStoreError(f"Object with ID '{object_id}' was not pre-registered.")


def get(self: Any, object_id: str) -> bytes | None:
    """Return an object's content; ``b""`` before its upload, None for an unknown object."""
    with self.session() as session:
        rows = Database(session)("SELECT content FROM objects WHERE object_id = ?", object_id)
    return rows[0][0] if rows else None


def delete(self: Any, object_id: str) -> None:
    """Delete an unreferenced object, and its descendants that are then unreferenced."""
    with self._mutation_session() as session:
        run = Database(session)

        def remove(number: str) -> None:
            if not run("SELECT 1 FROM objects WHERE object_id = ? AND ref_count = 0", number):
                return
            children = run("SELECT child_id FROM object_children WHERE parent_id = ?", number)
            run("DELETE FROM objects WHERE object_id = ? AND ref_count = 0", number)
            for child in children:
                run("UPDATE objects SET ref_count = ref_count - 1 WHERE object_id = ? AND ref_count > 0", *child)
            for child in children:
                remove(*child)

        remove(object_id)


def _lock_objectstore_mutation(self: Any) -> None:
    with self.session() as session:
        Database(session)(
            "INSERT INTO objectstore_locks (lock_id, lock_value) VALUES (?, 0) "
            "ON CONFLICT (lock_id) DO UPDATE SET lock_value = objectstore_locks.lock_value",
            self._MUTATION_LOCK_ID,
        )


# Uploads ----------------------------------------------------------------------------------------------------------


def preregister_object_tree(self: Any, object_tree: Any, session_id: str) -> list[str]:
    """Register a tree in an upload session and return its missing objects."""
    with self.session() as session:
        run = Database(session)
        rows = run("SELECT run_id FROM object_push_sessions WHERE session_id = ?", session_id)
        if not rows:
            raise ValueError(f"Unknown object push session: {session_id}")
        missing: list[str] = self.object_store.preregister(unsigned(rows[0][0]), object_tree)
        root = object_tree.object_id
        for (former,) in run(
            "SELECT session_id FROM object_push_session_roots WHERE root_object_id = ? AND session_id != ?",
            root,
            session_id,
        ):
            self._cleanup_push_session(former, cleanup_messages=False)
        run("INSERT INTO object_push_session_roots (session_id, root_object_id) VALUES (?, ?)", session_id, root)
        for number in missing:
            run(
                "INSERT INTO object_push_session_pending (session_id, object_id) VALUES (?, ?) "
                "ON CONFLICT (session_id, object_id) DO NOTHING",
                session_id,
                number,
            )
        run(
            "UPDATE object_push_sessions SET pending_count = "
            "(SELECT count(*) FROM object_push_session_pending WHERE session_id = ?1) WHERE session_id = ?1",
            session_id,
        )
    return missing


def store_object(self: Any, run_id: int, session_id: str, object_id: str, object_content: bytes) -> bool:
    """Store an object that an upload session expects; return whether it was stored."""
    from flwr.common.logger import log
    from flwr.supercore.constant import OBJECT_PUSH_SESSION_TTL_SECONDS

    try:
        with self.session() as session:
            run = Database(session)
            if not session_id:
                rows = run("SELECT session_id FROM object_push_session_pending WHERE object_id = ?", object_id)
                if not rows:
                    return False
                session_id = rows[0][0]
            claimed = run(
                "DELETE FROM object_push_session_pending WHERE session_id = ? AND object_id = ? AND EXISTS "
                "(SELECT 1 FROM object_push_sessions AS s WHERE s.session_id = ? AND s.run_id = ?) "
                "RETURNING session_id",
                session_id,
                object_id,
                session_id,
                signed(run_id),
            )
            if not claimed:
                return False
            ((expires,),) = run("SELECT expires_at FROM object_push_sessions WHERE session_id = ?", session_id)
            end = datetime.fromisoformat(expires)
            if (end.replace(tzinfo=UTC) if end.tzinfo is None else end) <= now():
                self._cleanup_push_session(session_id, cleanup_messages=True)
                return False
            self.object_store.put(object_id, object_content)
            later = now() + timedelta(seconds=OBJECT_PUSH_SESSION_TTL_SECONDS)
            rows = run(
                "UPDATE object_push_sessions SET pending_count = pending_count - 1, expires_at = ? "
                "WHERE session_id = ? RETURNING pending_count",
                later.astimezone(UTC).isoformat(sep=" "),
                session_id,
            )
            if not rows:
                raise RuntimeError("Object push session disappeared after claim")
            if rows[0][0] == 0:
                run("DELETE FROM object_push_sessions WHERE session_id = ?", session_id)
            return True
    except Exception as error:
        log(logging.ERROR, "Failed to store object %s: %s", object_id, error)
        return False


def get_object(self: Any, run_id: int, object_id: str) -> bytes | None:
    """Return an object's content as :func:`get` does, and give up the expired sessions that wait for it."""
    with self.session() as session:
        content: bytes | None = self.object_store.get(object_id)
        if content != b"":
            return content
        expired = Database(session)(
            "SELECT s.session_id FROM object_push_session_pending AS p "
            "JOIN object_push_sessions AS s ON s.session_id = p.session_id "
            "WHERE p.object_id = ? AND s.run_id = ? AND s.expires_at <= ?",
            object_id,
            signed(run_id),
            now().astimezone(UTC).isoformat(sep=" "),
        )
        if not expired:
            return content
        for (session_id,) in expired:
            self._cleanup_push_session(session_id, cleanup_messages=True)
        content = self.object_store.get(object_id)
        return content


# Nodes -----------------------------------------------------------------------------------------------


def get_nodes(self: Any, run_id: int) -> set[int]:
    """Return the connected nodes of a run's federation."""
    from flwr.supercore.constant import NodeStatus

    with self.session() as session:
        rows = Database(session)("SELECT federation_id FROM run WHERE run_id = ?", signed(run_id))
        if not rows or rows[0][0] is None:
            return set()
        self._check_and_tag_offline_nodes()
        nodes = Database(session)("SELECT node_id FROM node WHERE status = ?", NodeStatus.ONLINE)
    connected: set[int] = self.federation_manager.filter_nodes({unsigned(node) for (node,) in nodes}, rows[0][0])
    return connected


def get_node_info(
    self: Any,
    *,
    node_ids: Sequence[int] | None = None,
    owner_aids: Sequence[str] | None = None,
    statuses: Sequence[str] | None = None,
) -> list[Any]:
    """Return what is known of the nodes with these ids, owners and statuses; None: with any."""
    from flwr.proto.node_pb2 import NodeInfo

    ids = None if node_ids is None else [*map(signed, node_ids)]
    given = {"node_id": ids, "owner_aid": owner_aids, "status": statuses}
    asked = {column: json.dumps([*values]) for column, values in given.items() if values is not None}
    if "[]" in asked.values():
        return []
    columns = [field.name for field in NodeInfo.DESCRIPTOR.fields]
    conditions = [f"{column} IN (SELECT value FROM json_each(?))" for column in asked]
    statement = f"SELECT {', '.join(columns)} FROM node WHERE {' AND '.join(['TRUE', *conditions])}"
    with self.session() as session:
        self._check_and_tag_offline_nodes()
        rows = Database(session)(statement, *asked.values())
    known = [dict(zip(columns, row, strict=True)) for row in rows]
    return [NodeInfo(**node | {"node_id": unsigned(node["node_id"])}) for node in known]


def _check_and_tag_offline_nodes(self: Any, node_ids: list[int] | None = None) -> None:
    """Note which connected nodes' time is over: of all nodes, or of some."""
    from flwr.supercore.constant import NodeStatus

    current = now().timestamp()
    if node_ids == []:
        return
    of = "" if node_ids is None else f" AND node_id IN ({', '.join(str(signed(node)) for node in node_ids)})"
    with self.session() as session:
        run = Database(session)
        for node, until in run(
            f"SELECT node_id, online_until FROM node WHERE online_until <= ? AND status = ?{of}",
            current,
            NodeStatus.ONLINE,
        ):
            run(
                "UPDATE node SET status = ?, last_deactivated_at = ? "
                "WHERE node_id = ? AND status = ? AND online_until <= ?",
                NodeStatus.OFFLINE,
                datetime.fromtimestamp(until, tz=UTC).isoformat(),
                node,
                NodeStatus.ONLINE,
                current,
            )


def activate_node(self: Any, node_id: int, heartbeat_interval: float) -> bool:
    """Count a node as connected for twice the interval; return whether it was disconnected before."""
    from flwr.common.constant import HEARTBEAT_PATIENCE
    from flwr.supercore.constant import NodeStatus

    self._check_and_tag_offline_nodes([node_id])
    current = now()
    with self.session() as session:
        return bool(
            Database(session)(
                "UPDATE node SET status = ?, last_activated_at = ?, online_until = ?, heartbeat_interval = ? "
                "WHERE node_id = ? AND status IN (?, ?) RETURNING node_id",
                NodeStatus.ONLINE,
                current.isoformat(),
                current.timestamp() + HEARTBEAT_PATIENCE * heartbeat_interval,
                heartbeat_interval,
                signed(node_id),
                NodeStatus.REGISTERED,
                NodeStatus.OFFLINE,
            )
        )


def store_traffic(self: Any, run_id: int, *, bytes_sent: int, bytes_recv: int) -> None:
    """Count the bytes of a call."""
    if bytes_sent < 0 or bytes_recv < 0:
        raise ValueError(f"Negative traffic values for run {run_id}: bytes_sent={bytes_sent}, bytes_recv={bytes_recv}")
    if bytes_sent == 0 and bytes_recv == 0:
        raise ValueError(f"Both bytes_sent and bytes_recv cannot be zero for run {run_id}")
    with self.session() as session:
        if not Database(session)(
            "UPDATE run SET bytes_sent = bytes_sent + ?, bytes_recv = bytes_recv + ? WHERE run_id = ? RETURNING run_id",
            bytes_sent,
            bytes_recv,
            signed(run_id),
        ):
            raise ValueError(f"Run {run_id} not found")


def add_clientapp_runtime(self: Any, run_id: int, runtime: float) -> None:
    """Count the seconds that a ClientApp took."""
    with self.session() as session:
        if not Database(session)(
            "UPDATE run SET clientapp_runtime = clientapp_runtime + ? WHERE run_id = ? RETURNING run_id",
            runtime,
            signed(run_id),
        ):
            raise ValueError(f"Run {run_id} not found")


def get_node_id_by_public_key(self: Any, public_key: bytes) -> int | None:
    """Return the id of a key's node, or None."""
    from flwr.supercore.constant import NodeStatus

    with self.session() as session:
        rows = Database(session)(
            "SELECT node_id FROM node WHERE public_key = ? AND status != ?", public_key, NodeStatus.UNREGISTERED
        )
    return unsigned(rows[0][0]) if rows else None


def acknowledge_node_heartbeat(self: Any, node_id: int, heartbeat_interval: float) -> bool:
    """Count a node as connected for twice the interval."""
    from flwr.common.constant import HEARTBEAT_PATIENCE
    from flwr.supercore.constant import NodeStatus

    current = now()
    with self.session() as session:
        return bool(
            Database(session)(
                "UPDATE node SET online_until = ?, heartbeat_interval = ?, last_activated_at = "
                "CASE WHEN status != ?3 THEN ?4 ELSE last_activated_at END, status = ?3 "
                "WHERE node_id = ?5 AND status != ?6 RETURNING node_id",
                current.timestamp() + HEARTBEAT_PATIENCE * heartbeat_interval,
                heartbeat_interval,
                NodeStatus.ONLINE,
                current.isoformat(),
                signed(node_id),
                NodeStatus.UNREGISTERED,
            )
        )


OBJECTS: tuple[Callable[..., Any], ...] = (
    preregister,
    get_object_tree,
    put,
    get,
    delete,
    _lock_objectstore_mutation,
)
STATE: tuple[Callable[..., Any], ...] = (
    preregister_object_tree,
    store_object,
    get_object,
    get_nodes,
    get_node_info,
    _check_and_tag_offline_nodes,
    activate_node,
    store_traffic,
    add_clientapp_runtime,
    get_node_id_by_public_key,
    acknowledge_node_heartbeat,
)
