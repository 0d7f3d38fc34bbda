"""Check the values of a possibly damaged ledger: SQLite and JSON allow any type."""

import math
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields

from aoi_fl.protocol.records import ClientRecord, Participation, RoundRecord
from aoi_fl.science.errors import AoiError, ConfigError
from aoi_fl.server.ledger import DAMAGE, About, Row

_RECORDS = {"clients": ClientRecord, "rounds": RoundRecord, "participations": Participation}
_DIVERGE = ("loss", "rmse")  # columns that may be infinite
_TEXT = {"name", "outcome", "reason"}
_OTHER = (str, str | None, list[Participation], dict[str, float])
_NUMBERS = {table: {f.name for f in fields(r) if f.type not in _OTHER} | {"round"} for table, r in _RECORDS.items()}
_NEEDED = {
    "clients": {"client", "name"},
    "rounds": {"round", "started", "seconds"},
    "participations": {"round", "client", "name", "outcome"},
}


@contextmanager
def legible(place: object) -> Iterator[None]:
    """Raise ConfigError if the block cannot read a ledger, or fails on its values; ``place`` names it."""
    try:
        yield
    except AoiError:
        raise
    except (OSError, *DAMAGE) as error:
        allowed = f"a readable ledger of a run ({error_line(error)})"
        remedy = "It is damaged or of another version. Restore it from a copy, or leave this run out."
        raise ConfigError("ledger", place, allowed, remedy) from error


def error_line(error: BaseException) -> str:
    """Return an error on one line, with its type unless the text is enough."""
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, (ValueError, sqlite3.Error)) and text else f"{type(error).__name__} {text}".strip()


def check(table: str, rows: list[Row]) -> list[Row]:
    """Return the rows; raise ValueError if a column has a value of a wrong type, or a required value is missing."""
    for row in rows if table == "rounds" else ():
        more = row.get("metrics") or {}
        if not isinstance(more, dict) or not all(type(value) in (int, float) for value in more.values()):
            raise ValueError(f"{table} has {more!r:.40} in its column metrics")
    for column in sorted((_NUMBERS[table] | _TEXT) & (rows[0].keys() if rows else set())):
        kinds: set[type] = {str} if column in _TEXT else {int} if column in ("round", "client") else {int, float}
        if column not in _NEEDED[table]:
            kinds.add(type(None))
        endless = () if column in _TEXT or column.endswith(_DIVERGE) else (math.inf, -math.inf)
        for kind, value in {(type(row[column]), row[column]) for row in rows}:
            if kind not in kinds or value in endless:
                raise ValueError(f"{table} has {value!r:.40} in its column {column}")
    return rows


def check_run(about: About) -> None:
    """Raise ValueError if the table ``run`` has a value of a wrong type."""
    for key in ("config", "policy"):
        if not isinstance(about.get(key) or {}, dict):
            raise ValueError(f"run has {about[key]!r:.40} as its {key}")
    for key, value in about.items():
        values = value.values() if key == "test_by_client" and isinstance(value, dict) else [value]
        numbers = ("since", "initial_", "test_", "model_bytes", "yardstick")
        if key.startswith(numbers) and not all(isinstance(one, int | float | None) for one in values):
            raise ValueError(f"run has {value!r:.40} as its {key}")
