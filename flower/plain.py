"""Plain SQLite statements that replace SQLAlchemy's in a SuperLink's most frequent methods.

Each method replaces the one of the same name in Flower 1.34.0: the same statements in the same transaction, so results
and tables are the same. The module needs Flower's SuperLink, and :mod:`.link_state` imports it where that is there.
"""

import json
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from flwr.common.constant import HEARTBEAT_PATIENCE
from flwr.common.logger import log
from flwr.proto.message_pb2 import ObjectTree
from flwr.proto.node_pb2 import NodeInfo
from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState
from flwr.supercore import date
from flwr.supercore.constant import OBJECT_PUSH_SESSION_TTL_SECONDS, NodeStatus
from flwr.supercore.inflatable.inflatable_object import get_object_id, is_valid_sha256_hash, iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import validate_object_content
from flwr.supercore.object_store import NoObjectInStoreError
from flwr.supercore.object_store.sql_object_store import SqlObjectStore

from aoi_fl.flower.transactions import InTurns


def signed(number: int) -> int:
    """Return the number that a database has for an id of 64 bits."""
    return number - 2**64 if number >= 2**63 else number


def unsigned(number: int) -> int:
    """Return the id of 64 bits for a database's number."""
    return number + 2**64 if number < 0 else number


class PlainStore(InTurns, SqlObjectStore):
    """Flower's object store with plain statements."""

    _mutation_session: Any  # its transaction is ours, too

    def preregister(self, run_id: int, object_tree: Any) -> list[str]:
        """Register the objects of a tree and return the missing ones."""
        parts = list(iterate_object_tree(object_tree))
        for part in parts:
            if not is_valid_sha256_hash(part.object_id):
                raise ValueError(f"Invalid object ID format: {part.object_id}")
        missing = []
        with self._mutation_session() as run:
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

    def get_object_tree(self, object_id: str) -> Any:
        """Return the tree of an object."""
        with self.session() as run:

            def tree(number: str) -> Any:
                if not run("SELECT object_id FROM objects WHERE object_id = ?", number):
                    raise NoObjectInStoreError(f"Object {number} was not pre-registered.")
                try:
                    children = run("SELECT child_id FROM object_children WHERE parent_id = ?", number)
                    return ObjectTree(object_id=number, children=[tree(child) for (child,) in children])
                except NoObjectInStoreError as error:
                    raise NoObjectInStoreError(
                        f"Object tree for object ID '{number}' contains missing children. This may indicate a "
                        "corrupted object store."
                    ) from error

            return tree(object_id)

    def put(self, object_id: str, object_content: bytes) -> None:
        """Store an object's content."""
        if self.verify:
            if object_id != get_object_id(object_content):
                raise ValueError(f"Object ID {object_id} does not match content hash")
            validate_object_content(content=object_content)
        with self.session() as run:
            stored = run(
                "UPDATE objects SET content = ?, is_available = 1 WHERE object_id = ? AND is_available = 0 "
                "RETURNING object_id",
                object_content,
                object_id,
            )
            if not stored and not run("SELECT object_id FROM objects WHERE object_id = ?", object_id):
                raise NoObjectInStoreError(f"Object with ID '{object_id}' was not pre-registered.")

    def get(self, object_id: str) -> bytes | None:
        """Return an object's content; ``b""`` before its upload, None for an unknown object."""
        with self.session() as run:
            rows = run("SELECT content FROM objects WHERE object_id = ?", object_id)
        return rows[0][0] if rows else None

    def delete(self, object_id: str) -> None:
        """Delete an unreferenced object, and its descendants that are then unreferenced."""
        with self._mutation_session() as run:

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

    def _lock_objectstore_mutation(self) -> None:
        with self.session() as run:
            run(
                "INSERT INTO objectstore_locks (lock_id, lock_value) VALUES (?, 0) "
                "ON CONFLICT (lock_id) DO UPDATE SET lock_value = objectstore_locks.lock_value",
                self._MUTATION_LOCK_ID,
            )


class PlainCalls(InTurns, SqlLinkState):
    """Flower's link state with plain statements for uploads and nodes; :mod:`.plain_messages` adds the messages."""

    # Uploads ------------------------------------------------------------------------------------------------------

    def preregister_object_tree(self, object_tree: Any, session_id: str) -> list[str]:
        """Register a tree in an upload session and return its missing objects."""
        with self.session() as run:
            rows = run("SELECT run_id FROM object_push_sessions WHERE session_id = ?", session_id)
            if not rows:
                raise ValueError(f"Unknown object push session: {session_id}")
            missing = self.object_store.preregister(unsigned(rows[0][0]), object_tree)
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

    def store_object(self, run_id: int, session_id: str, object_id: str, object_content: bytes) -> bool:
        """Store an object that an upload session expects; return whether it was stored."""
        try:
            with self.session() as run:
                if not session_id:
                    rows = run("SELECT session_id FROM object_push_session_pending WHERE object_id = ?", object_id)
                    if not rows:
                        return False
                    session_id = rows[0][0]
                if not run(
                    "DELETE FROM object_push_session_pending WHERE session_id = ?1 AND object_id = ?2 AND EXISTS "
                    "(SELECT 1 FROM object_push_sessions AS s WHERE s.session_id = ?1 AND s.run_id = ?3) "
                    "RETURNING session_id",
                    session_id,
                    object_id,
                    signed(run_id),
                ):
                    return False
                ((expires,),) = run("SELECT expires_at FROM object_push_sessions WHERE session_id = ?", session_id)
                end = datetime.fromisoformat(expires)
                if (end.replace(tzinfo=UTC) if end.tzinfo is None else end) <= date.now():
                    self._cleanup_push_session(session_id, cleanup_messages=True)
                    return False
                self.object_store.put(object_id, object_content)
                ((pending,),) = run(
                    "UPDATE object_push_sessions SET pending_count = pending_count - 1, expires_at = ? "
                    "WHERE session_id = ? RETURNING pending_count",
                    _session_end(),
                    session_id,
                )
                if pending == 0:
                    run("DELETE FROM object_push_sessions WHERE session_id = ?", session_id)
                return True
        except Exception as error:
            log(logging.ERROR, "Failed to store object %s: %s", object_id, error)
            return False

    def start_session(self, run_id: int) -> str:
        """Start an upload session of a run and return its id."""
        made = str(uuid4())
        with self.session() as run:
            run(
                "INSERT INTO object_push_sessions (session_id, run_id, expires_at, pending_count) VALUES (?, ?, ?, 0)",
                made,
                signed(run_id),
                _session_end(),
            )
        return made

    def get_object(self, run_id: int, object_id: str) -> bytes | None:
        """Return an object's content as the store does, and give up the expired sessions that wait for it."""
        with self.session() as run:
            content = self.object_store.get(object_id)
            if content != b"":
                return content
            for (session_id,) in run(
                "SELECT s.session_id FROM object_push_session_pending AS p "
                "JOIN object_push_sessions AS s ON s.session_id = p.session_id "
                "WHERE p.object_id = ? AND s.run_id = ? AND s.expires_at <= ?",
                object_id,
                signed(run_id),
                _stored(date.now()),
            ):
                self._cleanup_push_session(session_id, cleanup_messages=True)
                content = self.object_store.get(object_id)
            return content

    # Nodes --------------------------------------------------------------------------------------------------------

    def get_nodes(self, run_id: int) -> set[int]:
        """Return the connected nodes of a run's federation."""
        with self.session() as run:
            rows = run("SELECT federation_id FROM run WHERE run_id = ?", signed(run_id))
            if not rows or rows[0][0] is None:
                return set()
            self._check_and_tag_offline_nodes()
            nodes = run("SELECT node_id FROM node WHERE status = ?", NodeStatus.ONLINE)
        return self.federation_manager.filter_nodes({unsigned(node) for (node,) in nodes}, rows[0][0])

    def get_node_info(
        self,
        *,
        node_ids: Sequence[int] | None = None,
        owner_aids: Sequence[str] | None = None,
        statuses: Sequence[str] | None = None,
    ) -> list[NodeInfo]:
        """Return what is known of the nodes with these ids, owners and statuses; None: with any."""
        ids = None if node_ids is None else [*map(signed, node_ids)]
        given = {"node_id": ids, "owner_aid": owner_aids, "status": statuses}
        asked = {column: json.dumps([*values]) for column, values in given.items() if values is not None}
        if "[]" in asked.values():
            return []
        columns = [field.name for field in NodeInfo.DESCRIPTOR.fields]
        conditions = [f"{column} IN (SELECT value FROM json_each(?))" for column in asked]
        with self.session() as run:
            self._check_and_tag_offline_nodes()
            rows = run(
                f"SELECT {', '.join(columns)} FROM node WHERE {' AND '.join(['TRUE', *conditions])}", *asked.values()
            )
        known = [dict(zip(columns, row, strict=True)) for row in rows]
        return [NodeInfo(**node | {"node_id": unsigned(node["node_id"])}) for node in known]

    def _check_and_tag_offline_nodes(self, node_ids: list[int] | None = None) -> None:
        """Note which connected nodes' time is over: of all nodes, or of some."""
        current = date.now().timestamp()
        if node_ids == []:
            return
        of = "" if node_ids is None else f" AND node_id IN ({', '.join(str(signed(node)) for node in node_ids)})"
        with self.session() as run:
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

    def activate_node(self, node_id: int, heartbeat_interval: float) -> bool:
        """Count a node as connected for twice the interval; return whether it was disconnected before."""
        self._check_and_tag_offline_nodes([node_id])
        return self._connect_for(heartbeat_interval, node_id, NodeStatus.ONLINE)

    def acknowledge_node_heartbeat(self, node_id: int, heartbeat_interval: float) -> bool:
        """Count a node as connected for twice the interval."""
        return self._connect_for(heartbeat_interval, node_id)

    def _connect_for(self, interval: float, node_id: int, status: str = NodeStatus.UNREGISTERED) -> bool:
        """Count a node as connected, unless it is unregistered or has this status; return whether it counts now."""
        current = date.now()
        with self.session() as run:
            return bool(
                run(
                    "UPDATE node SET online_until = ?, heartbeat_interval = ?, last_activated_at = "
                    "CASE WHEN status != ?3 THEN ?4 ELSE last_activated_at END, status = ?3 "
                    "WHERE node_id = ?5 AND status NOT IN (?6, ?7) RETURNING node_id",
                    current.timestamp() + HEARTBEAT_PATIENCE * interval,
                    interval,
                    NodeStatus.ONLINE,
                    current.isoformat(),
                    signed(node_id),
                    NodeStatus.UNREGISTERED,
                    status,
                )
            )

    def get_node_id_by_public_key(self, public_key: bytes) -> int | None:
        """Return the id of a key's node, or None."""
        with self.session() as run:
            rows = run(
                "SELECT node_id FROM node WHERE public_key = ? AND status != ?", public_key, NodeStatus.UNREGISTERED
            )
        return unsigned(rows[0][0]) if rows else None

    # Counts -------------------------------------------------------------------------------------------------------

    def store_traffic(self, run_id: int, *, bytes_sent: int, bytes_recv: int) -> None:
        """Count the bytes of a call."""
        given = f"bytes_sent={bytes_sent}, bytes_recv={bytes_recv}"
        if bytes_sent < 0 or bytes_recv < 0:
            raise ValueError(f"Negative traffic values for run {run_id}: {given}")
        if bytes_sent == 0 and bytes_recv == 0:
            raise ValueError(f"Both bytes_sent and bytes_recv cannot be zero for run {run_id}")
        self._add_to_run(run_id, bytes_sent=bytes_sent, bytes_recv=bytes_recv)

    def add_clientapp_runtime(self, run_id: int, runtime: float) -> None:
        """Count the seconds that a ClientApp took."""
        self._add_to_run(run_id, clientapp_runtime=runtime)

    def _add_to_run(self, run_id: int, **more: float) -> None:
        sums = ", ".join(f"{column} = {column} + ?" for column in more)
        with self.session() as run:
            if not run(f"UPDATE run SET {sums} WHERE run_id = ? RETURNING run_id", *more.values(), signed(run_id)):
                raise ValueError(f"Run {run_id} not found")


def _session_end() -> str:
    return _stored(date.now() + timedelta(seconds=OBJECT_PUSH_SESSION_TTL_SECONDS))


def _stored(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(sep=" ")
