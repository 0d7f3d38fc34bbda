"""The protocol of server and client: message types, record keys, and the few records of our own.

Each record is a frozen dataclass that becomes a flat mapping of scalars and lists (all that a Flower ``ConfigRecord``
holds) and is read back strictly: whatever a peer sends, :meth:`Record.read` returns a well-typed record or raises
``ValueError`` with the field and the value.

By hand, and not by pydantic, for the sake of whoever answers in a process of its own: pydantic reads a record in half
the time, a few microseconds less, but its import takes longer than all else that a question needs beside Flower
(docs/benchmarks.md).
"""

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Self, get_args, get_type_hints

QUERY = "query"  # the category of the first three
HELLO, PARTICIPATE, BID, TRAIN, EVALUATE = "query.hello", "query.participate", "query.bid", "train", "evaluate"

ARRAYS, CONFIG, METRICS = "arrays", "config", "metrics"  # Flower's customary record keys
AOI = "aoi"  # the key of our own record in a message's content

CENTRAL, POLL, BROADCAST, RESERVE = "central", "poll", "broadcast", "reserve"
WIRES = (POLL, BROADCAST, RESERVE)
ASKING = (POLL, RESERVE)  # under which a client says whether it takes part before it is sent the model

# What a run's server deals out in the run's folder, where simulated clients and those of one machine find it.
PARTITION_FILE, CLIENTS_FILE = "partition.npy", "clients.csv"

# The remedy for a client of Flower's former interface, which cannot answer a question.
FORMER_CLIENT = (
    "NumPyClient, Client and client_fn belong to Flower's former interface. Register functions of (message, context) "
    "with @app.train() and @app.evaluate(), each of which returns Message(RecordDict({...}), reply_to=message)."
)

BY_SENSITIVITY = ("whittle", "abs")  # the indices that use φ

# What a client may tell of itself; beyond it a claim is an error or an attack.
MAX_NAME = 100  # characters, all of them printable
MAX_EXAMPLES = 10**9  # more than any client trains on in a round
MAX_AGE = 2**31 - 1  # rounds
LEAST, MOST = 1e-30, 1e30  # any other number; products and squares of such numbers stay finite

_LARGEST = sys.float_info.max


def is_name(text: str) -> bool:
    """Return whether a client may be called so."""
    return 0 < len(text) <= MAX_NAME and text.isprintable()


def category(message_type: str) -> str:
    """Return what a message asks for, without the action after it: "train" of "train.personal"."""
    return message_type.partition(".")[0]


class Record:
    """A dataclass that travels as a flat mapping; None and empty lists stay at home."""

    def write(self) -> dict[str, Any]:
        """Return the mapping; keys are the field names in kebab case."""
        values = {key: getattr(self, name) for name, key, _ in _fields(type(self))}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items() if v is not None and v != ()}

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Build the record from a mapping; unknown keys are ignored.

        Raises
        ------
        ValueError : a field is missing or has a value of the wrong type, or a number is not finite.
        """
        sent = dict(values.items())  # a look into Flower's records costs ten times one into these
        found = {name: _typed(key, sent[key], hint) for name, key, hint in _fields(cls) if key in sent}
        try:
            return cls(**found)
        except TypeError:
            missing = [key for name, key, _ in _fields(cls) if name not in found]
            raise ValueError(f"a {cls.__name__} record lacks one of {', '.join(missing)}") from None


def _look_up(record: Any) -> tuple[tuple[str, str, Any], ...]:
    """Return the name, the key on the wire and the type of each field of a record."""
    hints = get_type_hints(record)
    return tuple((f.name, f.name.replace("_", "-"), _plain(hints[f.name])) for f in fields(record))


# Type hints are slow to resolve, and a server reads thousands of records a round.
_fields: Callable[[Any], tuple[tuple[str, str, Any], ...]] = cache(_look_up)


def _plain(hint: Any) -> Any:
    return next(a for a in get_args(hint) if a is not NoneType) if isinstance(hint, UnionType) else hint


def _typed(key: str, value: Any, hint: Any) -> Any:
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise ValueError(f"{key} does not fit 64 bits")
    if hint is float and type(value) is int:
        value = float(value)
    if hint == tuple[float, ...]:
        if not isinstance(value, list | tuple) or not all(
            type(v) in (int, float) and abs(v) <= _LARGEST for v in value
        ):
            raise ValueError(f"{key} is {_short(value)}, not a list of finite numbers")
        return tuple(float(v) for v in value)
    if type(value) is not hint:
        raise ValueError(f"{key} is {_short(value)}, not of type {hint.__name__}")
    if hint is float and not math.isfinite(value):
        raise ValueError(f"{key} is {value}, not a finite number")
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True)
class ParticipationRequest(Record):
    """Server to client, in every message: which run and round, and on what terms.

    ``table`` is p_0 … p_m; ``forced`` is set for the one client that trains because nobody volunteered; ``refresh``
    tells the client to renew its data first; ``index`` and ``budget`` are what a bid is computed with; ``ahead`` asks
    whoever evaluates this round's model whether it takes part in the next round; ``compression`` is how an update is to
    travel (:mod:`aoi_fl.protocol.coding`), None: as it is. With a ``rate`` the client takes part systematically
    (:mod:`aoi_fl.science.systematic`), in place of by the table: by that rate, its ``phase`` (None: one that it draws
    itself), ``jitter`` (None: 0) and the ``shift`` of a rate that has changed (None: 0). ``pace`` is the seconds that a
    round takes, at least; ``looks`` those between two looks for a message of a client that does not know when the next
    one comes, None: as it likes. ``token`` tells the run from an earlier one of its name, where clients keep their
    states out of the server's reach. ``min_separation`` and ``rounds`` are the promise of a private run: a client
    trains at least so many rounds after its last time, and in no round after the last. ``rule`` names code of the
    user's own, of digest ``rule_source``, by which the client decides, made for ``clients`` and ``per_round``.
    """

    run: str
    round: int
    wire: str = CENTRAL
    table: tuple[float, ...] = ()
    forced: bool = False
    refresh: bool = False
    index: str | None = None
    budget: float | None = None
    ahead: bool | None = None
    compression: str | None = None
    rate: float | None = None
    phase: float | None = None
    jitter: float | None = None
    shift: float | None = None
    pace: float | None = None
    looks: float | None = None
    token: str | None = None
    min_separation: int | None = None
    rounds: int | None = None
    rule: str | None = None
    rule_source: str | None = None
    clients: int | None = None
    per_round: int | None = None


@dataclass(frozen=True)
class Introduction(Record):
    """Client to server, once: who it is.

    ``number`` is its data partition where it has one, ``last_round`` the last
    round of this run in which it took part, ``payment`` and ``sensitivity`` its price and its φ where it has them,
    ``data_age`` the age of its data before this round's decision, ``packing`` the packed form of models that it reads
    (:mod:`aoi_fl.protocol.packing`).
    """

    name: str
    number: int | None = None
    num_examples: int | None = None
    payment: float | None = None
    sensitivity: float | None = None
    last_round: int | None = None
    data_age: int | None = None
    packing: int | None = None


@dataclass(frozen=True)
class ParticipationReply(Record):
    """Client to server, on an ask or with an update: what it decided.

    ``age`` is its age before the decision, in rounds missed; ``next_round`` the round that it reserved, if any;
    ``compression`` and ``scales`` tell how the update beside it is coded, if it is
    (:class:`aoi_fl.protocol.coding.Coded`);
    ``rule`` names the rule of the device's owner by which it declined, where it would have taken part but for that;
    ``sleeps`` the seconds for which it looks for no message, None: it stays awake.
    """

    name: str
    takes_part: bool
    age: int
    next_round: int | None = None
    compression: str | None = None
    scales: tuple[float, ...] = ()
    rule: str | None = None
    sleeps: float | None = None

    def __post_init__(self) -> None:
        if self.age < 0:
            raise ValueError(f"age is {self.age}, it must be 0 or more")


def has_decided(values: Mapping[str, Any]) -> bool:
    """Tell whether an :class:`ParticipationReply` travels with an :class:`Introduction`, as one mapping of both."""
    return "takes-part" in values


@dataclass(frozen=True)
class Bid(Record):
    """Client to server: the index it computed itself (Xu et al. 2024, Algorithm 1, step 2), its price and data age."""

    name: str
    bid: float
    payment: float
    age: int
