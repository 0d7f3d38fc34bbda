"""The protocol of server and client: message types, record keys and our records.

Each record is a frozen dataclass. It is sent as a flat mapping of scalars and lists, which a Flower ``ConfigRecord``
can hold. :meth:`Record.read` is strict: it returns a well-typed record or raises ``ValueError`` with the field and the
value.

The code does not use pydantic, because a client may answer each message in a new process. Pydantic reads a record a few
microseconds faster, but its import takes longer than all other work of an answer except Flower's (docs/benchmarks.md).
"""

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from types import NoneType, UnionType
from typing import Any, Self, cast, get_args, get_type_hints

from aoi_fl.science.errors import shown

QUERY = "query"  # the category of HELLO, PARTICIPATE and BID
HELLO, PARTICIPATE, BID, TRAIN, EVALUATE = "query.hello", "query.participate", "query.bid", "train", "evaluate"

ARRAYS, CONFIG, METRICS = "arrays", "config", "metrics"  # Flower's customary record keys
AOI = "aoi"  # the key of our own record in a message's content
DECLINED_BY = "declined by the owner's rule "  # the text of an error reply of the owner's gate, before the rule

CENTRAL, POLL, BROADCAST, RESERVE = "central", "poll", "broadcast", "reserve"
WIRES = (POLL, BROADCAST, RESERVE)
ASKING = (POLL, RESERVE)  # a client decides before the server sends it the model

# Files that the server writes into the run's folder, for simulated clients and clients on the same machine.
PARTITION_FILE, CLIENTS_FILE = "partition.npy", "clients.csv"

# The remedy for a client of Flower's former interface, which cannot answer queries.
FORMER_CLIENT = (
    "NumPyClient, Client and client_fn belong to Flower's former interface. Register functions of (message, context) "
    "with @app.train() and @app.evaluate(), each of which returns Message(RecordDict({...}), reply_to=message)."
)

BY_SENSITIVITY = ("whittle", "abs")  # the indices that use φ

# Limits of a client's claims; a claim beyond them is an error or an attack.
MAX_NAME = 100  # characters, all of them printable
MAX_EXAMPLES = 10**9  # more than any client trains on in a round
MAX_AGE = 2**31 - 1  # rounds
LEAST, MOST = 1e-30, 1e30  # all other numbers; their products and squares stay finite

MAX_MU = 1e6  # an ε of 5·10¹¹: no privacy
MAX_TEXT = 1000  # characters of a text in a request
MAX_TABLE = 2**20  # entries of a table in a request
MAX_SECONDS = 1e9  # of any time in a request

_LARGEST = sys.float_info.max


def is_name(text: str) -> bool:
    """Return whether a text is a valid client name."""
    return 0 < len(text) <= MAX_NAME and text.isprintable()


def default_name(number: int) -> str:
    """Return the name of a simulated client of this number."""
    return f"client-{number}"


def category(message_type: str) -> str:
    """Return a message type without its action: "train" for "train.personal"."""
    return message_type.partition(".")[0]


class Record:
    """A dataclass that is sent as a flat mapping, without None and empty lists."""

    def write(self) -> dict[str, Any]:
        """Return the mapping; keys are the field names in kebab case."""
        values = {key: getattr(self, name) for name, key, _ in _fields(type(self))}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items() if v is not None and v != ()}

    @classmethod
    def required(cls) -> set[str]:
        """Return the keys of the fields without a default."""
        return {f.name.replace("_", "-") for f in fields(cast(Any, cls)) if f.default is MISSING}

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Build the record from a mapping; unknown keys are ignored.

        Raises
        ------
        ValueError : a field is missing or has a value of the wrong type, or a number is not finite.
        """
        sent = dict(values.items())  # a lookup in Flower's records takes ten times as long
        arguments = {name: _typed(key, sent[key], hint) for name, key, hint in _fields(cls) if key in sent}
        try:
            return cls(**arguments)
        except TypeError:
            missing = [key for name, key, _ in _fields(cls) if name not in arguments]
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
            raise ValueError(f"{key} is {shown(value)}, not a list of finite numbers")
        return tuple(float(v) for v in value)
    if type(value) is not hint:
        raise ValueError(f"{key} is {shown(value)} ({type(value).__name__}), not of type {hint.__name__}")
    if hint is float and not math.isfinite(value):
        raise ValueError(f"{key} is {value}, not a finite number")
    return value


_BOUNDS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("min_separation", "rounds"), (1, MAX_AGE)),
    **dict.fromkeys(("clients", "per_round"), (1, MAX_EXAMPLES)),
    **dict.fromkeys(("pace", "looks"), (0, MAX_SECONDS)),
    "mu": (0, MAX_MU),
    "delta": (sys.float_info.min, math.nextafter(1, 0)),
    "elapsed": (-MAX_SECONDS, MAX_SECONDS),
}


@dataclass(frozen=True)
class ParticipationRequest(Record):
    """The server's request in every message to a client: run, round and terms.

    Attributes
    ----------
    run, round : the run's name and the round's number
    wire : the coordination
    table : participation probabilities p_0 … p_m
    forced : whether this client trains because no client volunteered
    refresh : whether the client first renews its data
    index, budget : the index of a bid and its budget
    ahead : whether a client that evaluates this round's model also decides about the next round
    compression : the code of updates (:mod:`aoi_fl.protocol.coding`); None: uncoded
    rate, phase, jitter, shift : the terms of a systematic client (:mod:`aoi_fl.science.systematic`), which then ignores
        ``table``; without a phase it draws its own, jitter and shift default to 0
    pace : the shortest duration of a round, in seconds
    elapsed : seconds since the start of this round; negative before it
    looks : seconds between two polls of a client without a known next message; None: the client's choice
    token : distinguishes the run from an earlier run of the same name
    min_separation, rounds : terms of a private run: the least number of rounds between two participations, and the last
        round
    mu, delta : noise of a private run: the μ of one update under it (Gaussian differential privacy), and δ
    clear : whether a client of a private run evaluates models, whose metrics have no noise; None: no
    rule, rule_source : name and digest of the user's own rule, by which the client decides
    clients, per_round : n and k, arguments of that rule
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
    elapsed: float | None = None
    looks: float | None = None
    token: str | None = None
    min_separation: int | None = None
    rounds: int | None = None
    mu: float | None = None
    delta: float | None = None
    clear: bool | None = None
    rule: str | None = None
    rule_source: str | None = None
    clients: int | None = None
    per_round: int | None = None

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Build the request as :meth:`Record.read` does; raise ValueError for a value out of its bounds too."""
        request = super().read(values)
        for name, key, hint in _fields(cls):
            value = getattr(request, name)
            if hint in (int, float) and value is not None:
                least, most = _BOUNDS.get(name, (-MAX_AGE, MAX_AGE) if hint is int else (-MOST, MOST))
                if not least <= value <= most:
                    raise ValueError(f"{key} is {value}, not from {least} to {most}")
            elif hint is str and value is not None and not (len(value) <= MAX_TEXT and value.isprintable()):
                raise ValueError(f"{key} is {shown(value)}, not a text of at most {MAX_TEXT} printable characters")
        if len(request.table) > MAX_TABLE or not all(0 <= p <= 1 for p in request.table):
            raise ValueError(f"table is {shown(request.table)}, not at most {MAX_TABLE} probabilities")
        return request

    @property
    def private(self) -> bool:
        """Whether the run is private, so that the client makes a promise."""
        return self.min_separation is not None or self.rounds is not None

    def untimed(self) -> Self:
        """Return the request for a client that reserves no round, and so needs no times of rounds."""
        return replace(self, pace=None, elapsed=None)


@dataclass(frozen=True)
class Introduction(Record):
    """A client's introduction in the roll call.

    Attributes
    ----------
    name : the client's name
    number : its data partition, if any
    num_examples : its number of examples
    payment, sensitivity : its price and its φ, if any
    last_round : the last round of this run in which it took part
    data_age : the age of its data before this round's decision
    packing : the packed form of models that it reads (:mod:`aoi_fl.protocol.packing`)
    tags : its tags, separated by commas
    """

    name: str
    number: int | None = None
    num_examples: int | None = None
    payment: float | None = None
    sensitivity: float | None = None
    last_round: int | None = None
    data_age: int | None = None
    packing: int | None = None
    tags: str | None = None


@dataclass(frozen=True)
class ParticipationReply(Record):
    """A client's decision, sent as a reply to a request or with an update.

    Attributes
    ----------
    name : the client's name
    takes_part : the decision
    age : its age before the decision, in missed rounds
    next_round : the round that it reserved, if any
    compression, scales : the code of the update in the same message, if any (:class:`aoi_fl.protocol.coding.Coded`)
    rule : the owner's rule that made it decline; None if no rule did
    sleeps : seconds for which it does not poll for messages; None: it stays awake
    trained : true if it has sent an update of this round already, so that it declines to send another one
    """

    name: str
    takes_part: bool
    age: int
    next_round: int | None = None
    compression: str | None = None
    scales: tuple[float, ...] = ()
    rule: str | None = None
    sleeps: float | None = None
    trained: bool | None = None

    def __post_init__(self) -> None:
        if self.age < 0:
            raise ValueError(f"age is {self.age}, it must be 0 or more")


def has_decided(values: Mapping[str, Any]) -> bool:
    """Return whether an introduction's mapping also contains a :class:`ParticipationReply`."""
    return "takes-part" in values


@dataclass(frozen=True)
class Bid(Record):
    """A client's bid: its index, price and data age (Xu et al. 2024, Algorithm 1, step 2)."""

    name: str
    bid: float
    payment: float
    age: int
