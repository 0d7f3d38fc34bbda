"""The scenario of a fleet, and its measurements."""

from dataclasses import dataclass, field

from aoi_fl.lab.benchmarks.fleet import kills


@dataclass(frozen=True)
class Scenario:
    """The scenario of a run.

    Attributes
    ----------
    clients, per_round : n and k
    coordination : the run key
    behaviour : behaviour of every node: "stock", "ours" or "asleep"
    rounds : number of quiet rounds
    killing : whether all faults of :mod:`aoi_fl.lab.benchmarks.fleet.kills` follow the quiet rounds
    restarts : number of kills of the SuperLink that follow the quiet rounds, each in the middle of a round
    seconds : time limit of the rounds; complete rounds count
    timeout : seconds until the deadline of training; queries have more time with more clients
    round_seconds : the run key
    late_rounds : the run key
    buffer : the run key; then ``per_round`` nodes are at work
    phones : whether nodes take the training times of generated phones, and not none
    joining : number of nodes that join per round, one by one; the quiet rounds then follow the last join. 0: all nodes
        are connected from the start
    start : number of nodes at the first round, if others join later
    server : the SuperLink: "ours", or "stock" (Flower's own)
    model : a name of :mod:`aoi_fl.lab.benchmarks.fleet.models`
    packing : as the run key
    """

    clients: int
    per_round: int
    coordination: str = "reserve"
    behaviour: str = "ours"
    rounds: int = 6
    killing: bool = False
    restarts: int = 0
    seconds: float = 300.0
    timeout: float = 60.0
    round_seconds: float = 0.0
    late_rounds: int = 0
    buffer: int = 0
    phones: bool = False
    joining: int = 0
    start: int = 0
    server: str = "ours"
    model: str = "handback"
    packing: str = "auto"

    @property
    def faults(self):
        """The faults that follow the quiet rounds, in order."""
        return kills.KILLS * self.killing + (kills.superlink,) * self.restarts

    @property
    def all_rounds(self):
        """The configured number of rounds; with joining nodes more than will run."""
        if self.joining:
            return 100_000
        return self.rounds + len(self.faults) * kills.ROUNDS


@dataclass
class Played:
    """The measurements of a run; seconds are wall-clock time, cpu is CPU time.

    Attributes
    ----------
    registered, connected : seconds until all keys are registered, and all nodes connected
    greeted : seconds from the ServerApp's start until all nodes are greeted
    first, rounds : seconds of the first quiet round, from the ServerApp's start, and of each later one
    requests : calls per second, by kind, in the quiet rounds after the first
    between : polls and heartbeats per second
    superlink_cpu, serverapp_cpu, own_cpu : CPU seconds per second in the same rounds; own: of all nodes
    superlink_peak, serverapp_peak : peak memory in MiB
    bytes : bytes per round in the same rounds
    late : replies after their deadline; lost : uploaded replies that were not counted
    failed : refused or failed calls, with messages that could not be fetched or answered
    newcomer_cpu : the SuperLink's CPU milliseconds per new client, until all have joined
    client_cpu : the same per training client, in the quiet rounds after the first, with polls and heartbeats
    client_calls : calls of a training client and of the ServerApp for it in the same rounds, without empty polls
    kills : seconds of each fault's round, and observations; faults of one name are numbered
    complete : whether all rounds completed in time
    """

    scenario: Scenario
    registered: float = 0.0
    connected: float = 0.0
    greeted: float | None = None
    first: float | None = None
    rounds: list[float] = field(default_factory=list)
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
