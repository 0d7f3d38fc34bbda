"""What the parts of a run share: its clients, its clock, and the round at hand."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from flwr.app import Message
from flwr.serverapp import Grid

from aoi_fl.protocol import ParticipationReply, ParticipationRequest
from aoi_fl.protocol.clock import MACHINE, Clock
from aoi_fl.protocol.log import logger
from aoi_fl.protocol.own_code import call_own
from aoi_fl.protocol.records import Observer, Participation
from aoi_fl.strategies.aggregation.base import Aggregation
from aoi_fl.strategies.aggregation.private import ByPrivateMean
from aoi_fl.strategies.plan import Resume, RoundOptions
from aoi_fl.strategies.policy import Policy
from aoi_fl.strategies.round.current import Round
from aoi_fl.strategies.round.roster import Roster
from aoi_fl.strategies.round.timer import RoundTimer
from aoi_fl.strategies.validation import limit_metrics

T = TypeVar("T")


@dataclass
class RunProgress:
    """What has happened in a run up to now.

    Attributes
    ----------
    trained : whether an update has been used
    evaluated : whether a client has evaluated the model
    unevaluable : whether the clients' app evaluates nothing, so that no client is asked again
    idle : rounds in a row without a usable update
    """

    trained: bool = False
    evaluated: bool = False
    unevaluable: bool = False
    idle: int = 0


@dataclass(eq=False)
class Shared:
    """What the parts of a run share.

    Attributes
    ----------
    policy : decides which clients take part
    options, weights, observer, resume : as in :class:`aoi_fl.strategies.strategy.AgeAwareStrategy`
    aggregation : makes a model of the updates
    needs : clients without which the run does not begin
    strategy : the name of the strategy's class, for messages
    clock, grid : the time, and the connection to the nodes, once the run has begun
    progress, roster, round, timer : the clients and rounds up to now
    inbox : decisions on the next round that arrive with other replies, and what was asked, by client. A restart loses
        them, and the server asks again. A decision remains valid when the terms change after it
    """

    policy: Policy
    options: RoundOptions
    aggregation: Aggregation
    weights: str
    observer: Observer
    resume: Resume | None
    needs: int
    strategy: str
    clock: Clock = MACHINE
    grid: Grid = field(init=False)

    def __post_init__(self) -> None:
        self.roster = Roster(self.options, self.needs, self.resume.clients if self.resume else ())
        self.timer, self.progress, self.round = RoundTimer(self.options.round_seconds), RunProgress(), Round(0)
        self.inbox: dict[int, tuple[ParticipationRequest, ParticipationReply]] = {}
        self._cautioned = set[str]()  # what a warning has been about

    def call_step(self, name: str, step: Callable[..., Any], *arguments: Any, made: Callable[[Any], T]) -> T:
        """Call a step of the strategy, which may be a subclass's."""
        wanted = "one that returns what Flower's strategies do"
        return call_own(f"{name} of {self.strategy}", step, *arguments, made=made, wanted=wanted)

    def warn_once(self, about: str, text: str, *values: object) -> None:
        """Log a warning, unless the run has logged one about this."""
        if about not in self._cautioned:
            self._cautioned.add(about)
            logger.warning(text, *values)

    def drop(self, client: int, outcome: str, reason: str, **more: Any) -> None:
        """Count, name and log a client without usable work."""
        self.round.drop(Participation(client, self.roster.name(client), outcome, reason=reason, **more))

    def limit_metrics(self, client: int, reply: Message) -> None:
        """Drop the metrics of a reply beyond its limits; a warning names the client once."""
        if not reply.has_error() and (dropped := limit_metrics(reply, self.options.weighted_by_key)):
            name, text = self.roster.name(client), "Client %s sends more metrics than are read: %d dropped."
            self.warn_once(f"metrics of {client}", text, name, dropped)

    def note_decision(self, client: int, answer: ParticipationReply | None) -> None:
        """Note what a client has decided; None: it announced nothing."""
        self.roster.note_decision(client, answer, self.round_duration)

    @property
    def private(self) -> ByPrivateMean | None:
        """The aggregation of a private run; None: the run is not private."""
        return self.aggregation if isinstance(self.aggregation, ByPrivateMean) else None

    @property
    def first(self) -> int:
        """The first round of the run, or of its resumption."""
        return 1 if self.resume is None else self.resume.next_round

    @property
    def most_at_work(self) -> int:
        """The clients at work with a buffer: those of ``at_work``, or of the policy."""
        return self.options.at_work or int(self.policy.describe()["per_round"])

    @property
    def separation(self) -> int:
        """The least number of rounds between two participations of a client that count."""
        return 1 if self.private is None else self.private.account.separation

    @property
    def round_duration(self) -> float | None:
        """Seconds of a round; None where clients evaluate, since any of them may be needed in any round."""
        evaluating = self.options.evaluators(1) and not self.progress.unevaluable
        return None if evaluating else self.timer.seconds
