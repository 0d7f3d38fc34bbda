"""What a damaged ledger does to who reads it: SQLite keeps any value in any column, and JSON may be anything."""

import math
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from aoi_fl.strategies.records import ClientRecord, Participation, RoundRecord

# What reading one, and working with what was read, may raise.
DAMAGE = (sqlite3.Error, ValueError, TypeError, LookupError, AttributeError, OverflowError)

_RECORDS = {"clients": ClientRecord, "rounds": RoundRecord, "participations": Participation}
_DIVERGE = ("loss", "rmse")  # what may be infinite
_OTHER = (str, str | None, list[Participation])
_NUMBERS = {table: {f.name for f in fields(r) if f.type not in _OTHER} | {"round"} for table, r in _RECORDS.items()}
_NEEDED = {"clients": {"client"}, "rounds": {"round", "started", "seconds"}, "participations": {"round", "client"}}


def check(table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise ValueError where a column of numbers holds something else, or nothing where there must be one."""
    for column in sorted(_NUMBERS[table] & (rows[0].keys() if rows else set())):
        kinds: set[type] = {int} if column in ("round", "client") else {int, float}
        if column not in _NEEDED[table]:
            kinds.add(type(None))
        values = [row[column] for row in rows]
        if not set(map(type, values)) <= kinds or (math.inf in values and not column.endswith(_DIVERGE)):
            wrong = next((value for value in values if type(value) not in kinds), math.inf)
            raise ValueError(f"{table} has {wrong!r:.40} in its column {column}")


def check_run(about: Mapping[str, Any]) -> None:
    """Raise ValueError where the table ``run`` has no object for configuration or policy, no number for a measure."""
    for key in ("config", "policy"):
        if not isinstance(about.get(key) or {}, dict):
            raise ValueError(f"run has {about[key]!r:.40} as its {key}")
    for key, value in about.items():
        if key.startswith("initial_") and not isinstance(value, int | float | None):
            raise ValueError(f"run has {value!r:.40} as its {key}")
