"""What a fleet is to play, and what a play took."""

from dataclasses import asdict, dataclass, field
from typing import Any

from aoi_fl.flower.seams import FLEET
from benchmarks.fleet import kills


@dataclass(frozen=True)
class Scenario:
    """What is played.

    Attributes
    ----------
    clients, per_round : n and k
    coordination : by which decisions travel
    behaviour : of every node: "stock", "ours" or "asleep"
    rounds : how many quiet ones
    killing : whether, after the quiet rounds, all that :mod:`benchmarks.fleet.kills` knows is tried, two rounds each
    seconds : at most, for the rounds; what has been played by then counts
    timeout : seconds until the deadline of training; a question has more, the more clients there are
    round_seconds : as the run key
    stalling : how many nodes announce their updates, and never upload them
    lingering : how many nodes train until four rounds are over, when they are asked in the first
    late_rounds : as the run key
    joining : how many nodes are there when the first round begins, and join in the time of a round, one after another;
        the quiet rounds are then those after all have been asked. 0: all are there
    server : the SuperLink's program: "ours", or "stock", Flower's own; "http", ours where Flower speaks HTTP
    model : one of :mod:`benchmarks.fleet.models`
    packing : as the run key
    """

    clients: int
    per_round: int
    coordination: str = "reserve"
    behaviour: str = "ours"
    rounds: int = 6
    killing: bool = False
    seconds: float = 300.0
    timeout: float = 60.0
    round_seconds: float = 0.0
    stalling: int = 0
    lingering: int = 0
    late_rounds: int = 0
    joining: int = 0
    server: str = "ours" if FLEET.there else "http"
    model: str = "handback"
    packing: str = "auto"

    @property
    def all_rounds(self) -> int:
        """The number of rounds that the run is told to play; where nodes join on the way, more than it will."""
        if self.joining:
            return 100_000
        return self.rounds + (len(kills.KILLS) * kills.ROUNDS if self.killing else 0)


@dataclass
class Played:
    """What a play took; seconds are on the clock, those of a processor are called cpu.

    Attributes
    ----------
    registered, connected : seconds until all keys were, and all nodes
    first, rounds : seconds of the first quiet round, from the ServerApp's beginning, and of each later one
    calls : of all nodes, by kind, until the first quiet round's end, connecting included
    requests : a second, by kind, in the quiet rounds after the first
    between : looks and heartbeats a second, those that find a message included
    superlink_cpu, serverapp_cpu, own_cpu : seconds of a processor a second, in the same rounds; own: of all nodes
    superlink_peak, serverapp_peak : MiB
    bytes : a round, in the same rounds
    late : replies that missed their deadline; lost : those that were uploaded, and count nowhere
    failed : calls that were refused or broken off, messages that could not be fetched or answered among them
    newcomer_cpu : milliseconds of the SuperLink's processor for a newcomer, until all are known
    client_cpu : the same for a training client, in the quiet rounds after the first, looks and heartbeats included
    client_calls : of a training client and of the ServerApp for it, in the same rounds, looks for nothing left out
    kills : seconds of the round in which each was, and what was seen
    complete : whether all rounds were played in time; unfinished : seconds of the round in which the time was up
    """

    scenario: Scenario
    registered: float = 0.0
    connected: float = 0.0
    first: float | None = None
    rounds: list[float] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)
    requests: dict[str, float] = field(default_factory=dict)
    between: float = 0.0
    superlink_cpu: float = 0.0
    serverapp_cpu: float = 0.0
    own_cpu: float = 0.0
    superlink_peak: float = 0.0
    serverapp_peak: float = 0.0
    bytes: float = 0.0
    late: int = 0
    lost: int = 0
    failed: int = 0
    trained: int = 0
    newcomer_cpu: float = 0.0
    client_cpu: float = 0.0
    client_calls: float = 0.0
    kills: dict[str, dict[str, float]] = field(default_factory=dict)
    complete: bool = False
    unfinished: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return all of it."""
        return asdict(self)
