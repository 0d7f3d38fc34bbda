"""What a round leaves behind: plain records that a strategy hands to its observer."""

from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from flwr.app import ArrayRecord

from aoi_fl.protocol.log import logger
from aoi_fl.science.types import Arrays

# The parts of a round that take time, in their order.
Phase: TypeAlias = Literal["hello", "ask", "train", "aggregate", "evaluate", "test"]
PHASES: tuple[Phase, ...] = get_args(Phase)
_SHOWN = 12  # values of a list in a log


@dataclass(frozen=True)
class ClientRecord:
    """A client as the roll call found it.

    ``client`` is its number from 0; ``examples``, ``payment`` (budget units) and ``sensitivity`` (φ) are None where the
    client did not declare them; ``since`` is the round in which it was first seen, ``data_age`` the age of its data
    at that time.
    """

    client: int
    name: str
    since: int
    examples: int | None = None
    payment: float | None = None
    sensitivity: float | None = None
    data_age: int | None = None


@dataclass(frozen=True)
class Participation:
    """One client's part in one round.

    ``outcome`` is ``trained`` (its update was added), ``failed`` (an error came back), ``late`` (no reply by the
    deadline), ``refused`` (a reply that was dropped) or ``declined`` (by a rule of its owner's; clients that merely
    declined have no record); ``reason`` says why for all but the first. ``age`` is the age before the decision, in
    rounds missed; ``weight`` the aggregation weight ω; ``seconds`` from when the model was sent to when the update
    came, or was no longer waited for; ``device_seconds`` for how long its device worked on it, in vain too, where time
    is simulated; ``rounds_late`` how many rounds late an update came that was added all the same, with a buffer its
    staleness in models; ``sensitivity`` the φ by which a budget ranked it, where the server estimates that.
    """

    client: int
    name: str
    outcome: str
    age: int | None = None
    weight: float | None = None
    examples: float | None = None
    loss: float | None = None
    forced: bool = False
    refreshed: bool = False
    payment: float | None = None
    next_round: int | None = None
    seconds: float | None = None
    device_seconds: float | None = None
    rounds_late: int | None = None
    sensitivity: float | None = None
    reason: str | None = None

    def alone(self) -> "Participation":
        """Return the participation without what the client reports of its data and its device."""
        hidden: dict[str, Any] = dict.fromkeys(("examples", "loss", "seconds", "device_seconds", "sensitivity"))
        reason = HIDDEN if self.outcome in ("failed", "refused") else self.reason
        return replace(self, reason=reason, **hidden)


BELOW_QUORUM = "the round lacks min-updates, or a client of must-include, so it does not count"
HIDDEN = "its reply was not used; metrics=clear records why"  # of a client of a private run
LOST = "it had trained in this round before the run broke off, and that update is lost"
SURPLUS = "enough updates had arrived before"  # the reason of a surplus client


@dataclass(frozen=True)
class Nodes:
    """The nodes of a round's roll call: their number, and why some cannot join."""

    connected: int
    refused: tuple[str, ...] = ()


@dataclass
class RoundRecord:
    """One round: counts of clients asked, willing, trained, declined and dropped, and the measures.

    Classes have an accuracy, numbers have ``…_rmse``, the root of the mean squared error. ``dropout`` is the estimated
    probability of losing a willing client, for which the round's table is made. ``epsilon`` is a private run's ε after
    this round, without amplification. ``clock`` has the simulated seconds since the start of the run. ``metrics`` has
    all other metrics by name, after ``train_``, ``client_`` or ``test_``. ``at_work`` counts the clients at work after
    the model was sent, where the run has a buffer. ``by_client`` has the accuracy, else the RMSE, that each client
    measured in this round, by name.

    Phases of the round's ``seconds``: ``hello`` to newcomers, without waiting; ``ask``, until the clients are selected;
    ``train``, until the last reply or the deadline, without ``aggregate``, which checks and sums updates; ``evaluate``,
    by clients; ``test``, on the server. A round without a phase has None.
    """

    round: int
    started: float = 0.0
    seconds: float = 0.0
    asked: int = 0
    willing: int = 0
    trained: int = 0
    declined: int = 0
    dropped: int = 0
    messages: int = 0
    forced: bool = False
    empty: bool = False
    spent: float | None = None
    dropout: float | None = None
    epsilon: float | None = None
    clock: float | None = None
    at_work: int | None = None
    train_loss: float | None = None
    test_loss: float | None = None
    test_accuracy: float | None = None
    test_rmse: float | None = None
    client_loss: float | None = None
    client_accuracy: float | None = None
    client_rmse: float | None = None
    hello_seconds: float | None = None
    ask_seconds: float | None = None
    train_seconds: float | None = None
    aggregate_seconds: float | None = None
    evaluate_seconds: float | None = None
    test_seconds: float | None = None
    participations: list[Participation] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    nodes: Nodes | None = None  # of a deployment
    by_client: dict[str, float] = field(default_factory=dict)

    def participation_only(self) -> "RoundRecord":
        """Return the record without anything that clients report, but who took part."""
        hidden: dict[str, Any] = dict.fromkeys(("train_loss", "client_loss", "client_accuracy", "client_rmse"))
        hidden["metrics"] = {name: value for name, value in self.metrics.items() if name.startswith("test_")}
        return replace(self, participations=[part.alone() for part in self.participations], by_client={}, **hidden)


NO_COLUMNS = ("participations", "nodes", "by_client")  # fields of a round that are no columns of the table ``rounds``

# A strategy's state between rounds, besides the model: arrays by name.
State: TypeAlias = Arrays


class Observer(Protocol):
    """Receives a strategy's events. A round is done once ``round_done`` has returned."""

    def clients_seen(self, clients: list[ClientRecord]) -> None:
        """Receive new clients."""

    def round_done(self, record: RoundRecord, arrays: ArrayRecord, memory: State) -> None:
        """Receive a finished round, the model after it, and the strategy's state."""


@runtime_checkable
class RunObserver(Protocol):
    """An observer that also receives the beginning and the end of :meth:`AgeAwareStrategy.start`."""

    def run_begins(self, policy: dict[str, Any], rounds: int) -> None:
        """Receive the policy's parameters and the number of rounds."""

    def run_ends(self, stopped: str | None, error: BaseException | None) -> None:
        """Receive the end: complete if there is neither a reason to stop nor an error."""


class Log:
    """An observer that keeps nothing and logs a line a round."""

    def clients_seen(self, clients: list[ClientRecord]) -> None:
        """Do nothing."""

    def round_done(self, record: RoundRecord, arrays: ArrayRecord, memory: State) -> None:
        """Log the round."""
        parts = [f"{record.trained} trained{' (forced)' if record.forced else ''}"]
        parts += [f"{n} {what}" for n, what in ((record.declined, "declined"), (record.dropped, "dropped")) if n]
        sides = {"train": "train", "client": "clients'", "test": "test"}
        for kind, (side, title) in product(("loss", "accuracy", "rmse"), sides.items()):
            value = getattr(record, f"{side}_{kind}", None)
            parts += [f"{title} {kind} {value:.4g}"] if value is not None else []
        parts += [f"{name} {value:.4g}" for name, value in record.metrics.items()]
        logger.info("Round %d: %s, %.1f s", record.round, ", ".join(parts), record.seconds)


def shown(value: object) -> str:
    """Return a parameter as text: numbers to four digits, and the beginning of a long list."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if not isinstance(value, list | tuple):
        return str(value)
    return f"[{', '.join(shown(one) for one in value[:_SHOWN])}{', …' if len(value) > _SHOWN else ''}]"
