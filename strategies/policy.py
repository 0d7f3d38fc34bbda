"""The policy interface: which clients get the model in a round, and what a policy learns from the outcome.

A policy has facts (:class:`PolicyTraits`) and six methods, of which only :meth:`Policy.plan` is required. It reads a
:class:`RoundView` and returns a :class:`Plan`; :class:`aoi_fl.strategies.strategy.AgeAwareStrategy` does the rest.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np

from aoi_fl.protocol import ParticipationRequest
from aoi_fl.protocol.records import ClientRecord, RoundRecord, State
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.selection import Population, Selector, sound_clients, sound_values
from aoi_fl.science.simulate import Decentralised
from aoi_fl.science.types import Floats, Ints, Mask
from aoi_fl.strategies.round.retry import QUESTION, TRAINING
from aoi_fl.strategies.round.roster import Roster

# The message that a request travels with.
Carrier: TypeAlias = Literal["hello", "query", "train", "evaluate"]
# "surplus": enough other updates had arrived before.
Result: TypeAlias = Literal["trained", "late", "failed", "refused", "declined", "surplus"]
# From requests by client to the replies, as they arrive: :class:`ParticipationReply`, :class:`Bid`, or a loss.
Query: TypeAlias = Callable[[str, Mapping[int, ParticipationRequest]], Iterator[tuple[int, Any]]]


@dataclass(frozen=True)
class PolicyTraits:
    """Facts about a policy that hold before round 1.

    Attributes
    ----------
    clients_needed : clients without which a run does not begin
    rates : whether the policy can tell how often each client takes part; "learned" rates follow from what happens
    own_weights : the policy's own weights: those of its "plan", or "size", the examples that clients declare or report
    sizes : whether the policy goes by data size; "optional": it can do without
    late_updates : whether an update may count in a later round
    law : the policy of the simulator by which clients take part; a private run takes their least separation from it
    least : clients with which a round can do, so that failing ones rest; None: ``clients_needed``
    by_data : whether clients are chosen by what they report of their data, as losses are: no private run allows it
    decides : whether the clients decide when they take part, so that the server does not fill free places
    warning : what a user of these parameters may not expect, said before round 1
    """

    clients_needed: int
    rates: Literal["unknown", "known", "learned"] = "unknown"
    own_weights: Literal["plan", "size"] = "plan"
    sizes: Literal["unused", "optional", "required"] = "unused"
    late_updates: bool = True
    law: Decentralised | Selector | None = None
    by_data: bool = False
    least: int | None = None
    decides: bool = False
    warning: str = ""


@dataclass(frozen=True)
class RoundView:
    """The clients of a round as they are now; (n,) arrays are indexed by client number and are not to be changed.

    Parameters
    ----------
    roster, record : the clients, and the record of the round
    population : makes the population of the round
    query : sends requests and yields replies
    base : run, round, and the seconds of a round that sleeping clients may count on
    seed : key of the server's draws
    first : whether this is the first round of the run, or after an interruption
    second_attempt : whether no client was willing in a first attempt
    may_force : whether the server may force a client where none is willing: not in a private run, and not while others
        are at work
    places : how many clients the server may select; None: as many as the policy likes
    volunteer_error : the option of that name
    """

    _roster: Roster
    _record: RoundRecord
    _population: Callable[[], Population]
    _query: Query
    base: ParticipationRequest
    seed: int
    first: bool
    second_attempt: bool
    may_force: bool = True
    places: int | None = None
    volunteer_error: float = 0.0

    @property
    def round(self) -> int:
        """The round."""
        return self.base.round

    @property
    def population(self) -> Population:
        """The clients as a selector sees them: ages, sizes, availability, payments, sensitivities."""
        return self._population()

    @property
    def declared(self) -> Mapping[int, ClientRecord]:
        """What each known client has declared, by number."""
        return self._roster.records

    @property
    def known(self) -> Mask:
        """(n,) the clients that have introduced themselves."""
        return self._mask(self._roster.records)

    @property
    def free(self) -> Mask:
        """(n,) the connected clients that are not at work on an earlier round's model."""
        return self._roster.available_but(())

    @property
    def resting(self) -> Mask:
        """(n,) the clients that are left alone in this round, since they did not respond before."""
        return self._mask(self._roster.patience.resting(QUESTION, TRAINING))

    @property
    def rested(self) -> Mask:
        """(n,) the clients that may take part again; only a private run makes clients rest."""
        last = self._roster.last
        return (last < 1) | (self.round - last >= (self.base.min_separation or 1))

    @property
    def silent(self) -> Mask:
        """(n,) the clients that did not respond to their last question or model."""
        return self._mask(self._roster.patience.silent(QUESTION, TRAINING))

    @property
    def asleep(self) -> Mask:
        """(n,) the clients that look for no message now."""
        return self._roster.asleep()

    @property
    def failed(self) -> Mask:
        """(n,) the clients that have failed in this round already, or declined by a rule of their owner's."""
        return self._mask(part.client for part in self._record.participations)

    @property
    def next_round(self) -> Ints:
        """(n,) the round that each client has reserved; 0: none."""
        return self._roster.next_round

    @property
    def last_seen(self) -> Ints:
        """(n,) the last round in which each client was connected; 0: none."""
        return self._roster.seen

    @property
    def awake_in(self) -> Floats:
        """(n,) seconds until each client looks for messages."""
        return self._roster.awake_in()

    def name(self, client: int) -> str:
        """Return the name of a client, or its number while its name is unknown."""
        return self._roster.name(client)

    def query(self, kind: str, requests: Mapping[int, ParticipationRequest]) -> Iterator[tuple[int, Any]]:
        """Ask clients and yield their replies as they arrive; the round names the clients without a usable reply.

        Parameters
        ----------
        kind : ``query.participate``, answered by an ``Answer``; ``query.bid``, by a ``Bid``; ``evaluate``, by the
            model's mean loss on the client's data
        requests : the request to each client; a client that rests is not asked
        """
        return self._query(kind, requests)

    def _mask(self, clients: Any) -> Mask:
        mask = np.zeros(len(self._roster), np.bool_)
        mask[list(clients)] = True
        return mask


@dataclass(frozen=True)
class Plan:
    """Which clients get the model in a round.

    Attributes
    ----------
    clients : (s,) int64, distinct client numbers
    weights : (s,) float64, aggregation weights ω; NaN: the number of examples that the client will report
    refresh : (s,) bool, the clients that renew their data first; None: no client does
    rates : (n,) float64, how often each client takes part, in participations a round; None: unknown
    members : (n,) bool, the clients among which the rates are shared; None: all
    forced : whether the server chose, because no client was willing
    undecided : whether the clients decide when they get the model
    payments, sensitivities : (n,) float64, what each client is paid for an update, and its φ; NaN or None: nothing
    refused : reasons by client, for unusable replies to a request
    ledger : entries of the round's record, by name, read once the policy has learned from the round
    """

    clients: Ints
    weights: Floats
    refresh: Mask | None = None
    rates: Floats | None = None
    members: Mask | None = None
    forced: bool = False
    undecided: bool = False
    payments: Floats | None = None
    sensitivities: Floats | None = None
    refused: Mapping[int, str] = field(default_factory=dict)
    ledger: Mapping[str, float] = field(default_factory=dict)

    @property
    def willing(self) -> int:
        """How many clients take part by their own decision, or for a payment."""
        return len(self.clients) if self.refresh is None else int(self.refresh.sum())

    def checked(self, policy: str, clients: int) -> "Plan":
        """Return the plan with arrays of the right types.

        Raises
        ------
        ConfigError
            A client number is out of range or occurs twice, or another value is not what the attributes say.
        """
        where = f"{policy}.plan"
        chosen = sound_clients(where, self.clients, clients)
        if not isinstance(self.refused, Mapping) or not isinstance(self.ledger, Mapping):
            raise ConfigError(where, None, "with mappings for refused and ledger", "Return such mappings.")
        refused = sound_clients(f"refused of {where}", list(self.refused), clients).tolist()

        def values(name: str, length: int, **how: Any) -> Any:
            array = getattr(self, name)
            return None if array is None else sound_values(f"{name} of {where}", array, length, **how)

        return replace(
            self,
            clients=chosen,
            weights=sound_values(f"weights of {where}", self.weights, len(chosen), unknown=True).astype(np.float64),
            refresh=values("refresh", len(chosen), kinds="b"),
            rates=values("rates", clients),
            members=values("members", clients, kinds="b"),
            payments=values("payments", clients, unknown=True),
            sensitivities=values("sensitivities", clients, unknown=True),
            refused=dict(zip(refused, map(str, self.refused.values()), strict=True)),
        )


@dataclass(frozen=True)
class ClientOutcome:
    """What became of one client in a round.

    Attributes
    ----------
    client : its number
    step : "ask", before the model was sent; else "train"
    forced : whether the server had forced it to train
    refreshed : whether it was to renew its data
    result : what became of it
    loss, seconds : the loss that it reported, and how long it took or was waited for; None: unknown
    rounds_late : how many rounds late its update arrived; None: it was in time
    """

    client: int
    step: Literal["ask", "train"]
    forced: bool
    refreshed: bool
    result: Result
    loss: float | None = None
    seconds: float | None = None
    rounds_late: int | None = None


@dataclass(frozen=True)
class RoundOutcome:
    """What happened in a round.

    Attributes
    ----------
    view, plan : the clients as they are now, and the last plan
    clients : outcomes; a client that merely declined has none
    declined : how many clients declined
    """

    view: RoundView
    plan: Plan
    clients: Sequence[ClientOutcome]
    declined: int


@runtime_checkable
class Policy(Protocol):
    """Decides which clients take part. A subclass needs ``traits`` and :meth:`plan`."""

    traits: PolicyTraits

    def __init__(self) -> None:  # else Protocol's own takes arguments of any name
        """Make a policy."""

    @abstractmethod
    def plan(self, view: RoundView) -> Plan:
        """Select the clients of a round."""

    def observe(self, outcome: RoundOutcome) -> str | None:
        """Learn from a round, once its updates are in; return why the run is complete, if it is."""
        return None

    def request_for(self, base: ParticipationRequest, client: int | None, on: Carrier) -> ParticipationRequest | None:
        """Return what a message asks a client, besides its task; None: nothing.

        Parameters
        ----------
        base : run, round and pace, to be completed
        client : the client; None: any newcomer
        on : the message. With "evaluate" the request is about the next round, which ``base`` names
        """
        return None

    def describe(self) -> dict[str, Any]:
        """Return the policy's parameters, for log, ledger and page."""
        return {"kind": type(self).__name__}

    def state_dict(self) -> State:
        """Return all that the next round needs, as arrays by name."""
        return {}

    def load_state_dict(self, state: State) -> None:
        """Restore what :meth:`state_dict` returned."""
