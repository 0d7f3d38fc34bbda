"""Plain SQLite statements for the methods of a SuperLink that store messages and hand them out, as in :mod:`.plain`."""

import json
import logging
from collections.abc import Collection
from typing import Any

from flwr.common.constant import MESSAGE_TTL_TOLERANCE, SUPERLINK_NODE_ID
from flwr.common.logger import log
from flwr.server.superlink.linkstate.utils import message_to_dict
from flwr.server.utils.validator import validate_message
from flwr.supercore import date
from flwr.supercore.constant import NodeStatus
from flwr.supercore.inflatable.inflatable_object import is_valid_sha256_hash
from flwr.superlink.federation import NoOpFederationManager
from sqlalchemy.exc import IntegrityError

from aoi_fl.flower.plain import PlainCalls, signed, unsigned
from aoi_fl.flower.versions import OVER_GRPC

_SHOWN = 80  # characters of an id in the log
_COLUMNS = (
    "message_id",
    "group_id",
    "run_id",
    "src_node_id",
    "dst_node_id",
    "reply_to_message_id",
    "created_at",
    "delivered_at",
    "ttl",
    "message_type",
    "content",
    "error",
)


class PlainState(PlainCalls):
    """Flower's link state with plain statements."""

    def _lock_run(self, run_id: int, *, require_unfinished: bool = False) -> dict[str, Any] | None:
        """Lock a run's row and return it, or None."""
        unfinished = (
            "AND EXISTS (SELECT 1 FROM task WHERE task.task_id = run.primary_task_id AND task.finished_at IS NULL) "
        )
        with self.session() as run:
            rows = run(
                f"UPDATE run SET run_id = run_id WHERE run_id = ? {unfinished * require_unfinished}"
                "RETURNING run_id, federation_id, primary_task_id",
                signed(run_id),
            )
        return dict(zip(("run_id", "federation_id", "primary_task_id"), rows[0], strict=True)) if rows else None

    def store_message_ins(self, message: Any) -> str | None:
        """Store a message to a node and return its id, or None for an invalid one."""
        metadata = message.metadata
        if not _is_sound(message, metadata.message_id, reply=False):
            return None
        try:
            with self.session() as run:
                locked = self._lock_run(metadata.run_id, require_unfinished=True)
                if locked is None:
                    return _refuse("Invalid run ID for Message: %s", metadata.run_id)
                there = run(
                    "SELECT 1 FROM node WHERE node_id = ? AND status IN (?, ?)",
                    signed(metadata.dst_node_id),
                    NodeStatus.ONLINE,
                    NodeStatus.OFFLINE,
                )
                of_node = there and self.federation_manager.has_node(metadata.dst_node_id, locked["federation_id"])
                if not of_node and not (not OVER_GRPC and metadata.dst_node_id == SUPERLINK_NODE_ID):
                    return _refuse("Invalid destination node ID for Message: %s", metadata.dst_node_id)
                _insert(run, "message_ins", message)
        except IntegrityError as error:
            if "message_ins.message_id" not in str(error.orig):
                raise
        return str(metadata.message_id)

    def store_message_res(self, message: Any) -> str | None:
        """Store a node's reply and return its id, or None for an invalid one."""
        metadata = message.metadata
        asked_id = metadata.reply_to_message_id
        if not _is_sound(message, asked_id, metadata.message_id, reply=True):
            return None
        try:
            with self.session() as run:
                if self._lock_run(metadata.run_id, require_unfinished=True) is None:
                    return _refuse("Invalid run ID for Message: %s", metadata.run_id)
                of = run("SELECT run_id FROM message_ins WHERE message_id = ?", asked_id)
                if not OVER_GRPC and of and unsigned(of[0][0]) != metadata.run_id:
                    return _refuse("A reply is of another run than its message.")
                asked = self.get_valid_message_ins(asked_id)
                if asked is None:
                    return _refuse("Failed to store a reply: there is no valid message %s.", asked_id)
                if unsigned(asked["dst_node_id"]) != metadata.src_node_id:
                    return None
                most = asked["created_at"] + asked["ttl"] - metadata.created_at
                if metadata.ttl and metadata.ttl - most > MESSAGE_TTL_TOLERANCE:
                    return _refuse("A reply's TTL of %.2f is above the allowed %.2f.", metadata.ttl, most)
                if not run("SELECT 1 FROM message_res WHERE message_id = ?", metadata.message_id):
                    _insert(run, "message_res", message)
        except IntegrityError:
            return _refuse("Failed to store a reply: the message %s has one, or the run is invalid.", asked_id)
        return str(metadata.message_id)

    def get_valid_message_ins(self, message_id: str) -> dict[str, Any] | None:
        """Return a message to a node, or None if there is none, or an invalid one, which is deleted."""
        with self.session():
            self._check_stored_messages({message_id})
            rows = self._load_message_ins_rows({message_id})
        return rows[0] if rows else None

    def _check_stored_messages(self, message_ids: set[str], run_id: int | None = None) -> None:
        """Delete the expired ones of some messages, and the ones outside a federation; all must be of ``run_id``."""
        if not message_ids:
            return
        with self.session() as run:
            current, invalid = date.now().timestamp(), set()
            rows = run(
                "SELECT m.run_id, m.message_id, m.src_node_id, m.dst_node_id, m.created_at + m.ttl, run.federation_id "
                "FROM json_each(?) AS asked JOIN message_ins AS m ON m.message_id = asked.value "
                "LEFT JOIN run ON run.run_id = m.run_id",
                _listed(message_ids),
            )
            if run_id is not None and any(row[0] != signed(run_id) for row in rows):
                raise ValueError("`message_ids` contains invalid IDs")
            for _, number, source, node, until, federation in rows:
                nodes = {unsigned(source), unsigned(node)}
                valid = until > current and federation
                alone = not OVER_GRPC and source == node
                if not valid or (not alone and len(self.federation_manager.filter_nodes(nodes, federation)) < 2):
                    invalid.add(number)
            self.delete_messages(invalid)

    def _load_message_ins_rows(self, message_ids: set[str]) -> list[dict[str, Any]]:
        """Return messages to nodes, the oldest first."""
        with self.session() as run:
            rows = run(
                f"SELECT {', '.join(_COLUMNS)} FROM message_ins WHERE message_id IN (SELECT value FROM json_each(?)) "
                "ORDER BY created_at, message_id",
                _listed(message_ids),
            )
        return [dict(zip(_COLUMNS, row, strict=True)) for row in rows]

    def _claim_message_ins_rows(
        self, node_id: int, limit: int | None, run_id: int | None = None
    ) -> list[dict[str, Any]]:
        """Mark a node's oldest messages, perhaps of one run, as delivered and return them; write for none."""
        time = date.now()
        with self.session() as run:
            rows = run(
                "SELECT message_id FROM message_ins WHERE dst_node_id = ?1 AND delivered_at = '' "
                "AND created_at + ttl > ?2 AND run_id = coalesce(?3, run_id) ORDER BY created_at, message_id LIMIT ?4",
                signed(node_id),
                time.timestamp(),
                None if run_id is None else signed(run_id),
                -1 if limit is None else limit,
            )
            if not rows:
                return []
            numbers = {number for (number,) in rows}
            run(
                "UPDATE message_ins SET delivered_at = ? WHERE message_id IN (SELECT value FROM json_each(?))",
                time.isoformat(),
                _listed(numbers),
            )
            return self._load_message_ins_rows(numbers)

    def delete_messages(self, message_ins_ids: set[str]) -> None:
        """Delete messages to nodes, and their replies."""
        if not message_ins_ids:
            return
        with self.session() as run:
            for table, column in (("message_ins", "message_id"), ("message_res", "reply_to_message_id")):
                run(f"DELETE FROM {table} WHERE {column} IN (SELECT value FROM json_each(?))", _listed(message_ins_ids))

    def get_message_res(self, message_ids: set[str], run_id: int | None = None) -> list[Any]:
        """Claim replies by Flower's method, which reads only messages with a reply or an error.

        A ServerApp asks for all its messages again and again, most of which have no reply yet. Flower reads each of
        them twice.
        """
        receive: Any = super().get_message_res
        of = {} if run_id is None else {"run_id": run_id}
        if type(self.federation_manager) is not NoOpFederationManager:  # others may take a node out of a federation
            return list(receive(message_ids, **of))
        with self.session() as run:
            rows = run(
                "SELECT asked.value FROM json_each(?1) AS asked "
                "LEFT JOIN message_ins AS m ON m.message_id = asked.value LEFT JOIN run ON run.run_id = m.run_id "
                "LEFT JOIN node ON node.node_id = m.dst_node_id AND node.status != ?2 "
                "WHERE m.created_at + m.ttl IS NULL OR m.created_at + m.ttl <= ?3 OR node.online_until IS NULL "
                "OR node.online_until <= ?3 OR m.run_id != coalesce(?4, m.run_id) "
                "OR coalesce(run.federation_id, '') = '' OR EXISTS "
                "(SELECT 1 FROM message_res AS r WHERE r.reply_to_message_id = asked.value AND r.delivered_at = '')",
                _listed(message_ids),
                NodeStatus.UNREGISTERED,
                date.now().timestamp(),
                None if run_id is None else signed(run_id),
            )
            return list(receive({number for (number,) in rows}, **of)) if rows else []


def _is_sound(message: Any, *ids: str, reply: bool) -> bool:
    """Return whether a message is valid, with digests as ids; log the reason if it is not."""
    if any(errors := validate_message(message=message, is_reply_message=reply)):
        _refuse(errors)
        return False
    for number in ids:  # SQLite's JSON ends a text at its first NUL
        if not is_valid_sha256_hash(number):
            _refuse("An id of a message is no digest: %r", number[:_SHOWN])
            return False
    return True


def _refuse(text: Any, *about: Any) -> str | None:
    """Log the reason to refuse a message and return None."""
    log(logging.ERROR, text, *about)
    return None


def _insert(run: Any, table: str, message: Any) -> None:
    row: dict[str, Any] = message_to_dict(message)
    row |= {key: signed(row[key]) for key in ("run_id", "src_node_id", "dst_node_id")}
    run(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", *row.values())


def _listed(numbers: Collection[str]) -> str:
    return json.dumps(sorted(numbers))
