"""The parameter objects of a run: the options of its rounds, and where an interrupted run goes on."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from flwr.app import MetricRecord, RecordDict

from aoi_fl import protocol
from aoi_fl.config.keys import RunKeys
from aoi_fl.protocol import coding, packing
from aoi_fl.science.errors import ConfigError
from aoi_fl.strategies.records import ClientRecord, State

# From the accepted replies, stripped of their arrays, and the name of the weighting metric, to one record.
AggregateMetrics: TypeAlias = Callable[[list[RecordDict], str], MetricRecord]


def _default(name: str) -> Any:
    return RunKeys.model_fields[name].default


@dataclass(frozen=True)
class RoundOptions:
    """How a round runs, whatever the policy.

    An option with a run key of its name has that key's default. Four differ, since here Flower's defaults hold and a
    run's do there: ``seed``, ``train_timeout``, ``evaluate_clients`` and ``max_empty_rounds``.

    Attributes
    ----------
    run, token : our own name of the run, sent in every message, by default made from Flower's run id; and what tells it
        from an earlier one of that name
    seed : key of the server's draws
    min_clients : clients that must be connected before round 1; by default as many as the policy needs
    join_timeout, ask_timeout, train_timeout, evaluate_timeout : deadlines in seconds; without a train or evaluate
        timeout, ``start``'s ``timeout`` holds
    deterministic : add updates in client order, so that equal runs are equal bit for bit
    evaluate_clients : how many clients evaluate the new model each round; None: as the next two say
    fraction_evaluate, min_evaluate_nodes : of those connected, and at least how many, as in Flower's FedAvg
    enough : how many updates end a round, the first that come, where more clients are sent the model than are wanted;
        None: all that come by the deadline
    late_rounds : how many rounds late an update may come and still be added, for less, see
        :mod:`aoi_fl.strategies.round.late_updates`; 0: none is
    serve_average : share β of an exponential average of the models, which is evaluated and saved in place of the
        newest, see :mod:`aoi_fl.strategies.serving`; 0: the newest is
    until : seconds of simulated time after which no further round begins; 0: none are counted
    foresight : whether policies whose papers assume it are told what no server can know, where time is simulated
    round_seconds : seconds from the start of a round to that of the next, at least; 0: a round starts at once
    max_empty_rounds : rounds in a row without a usable update after which the run stops; 0: it never does, but for a
        loop of somebody else's that has trained nothing in its first three
    compression : how updates travel, see :mod:`aoi_fl.protocol.coding`
    packing : ``auto`` or ``none``: whether a model travels as one array, see :mod:`aoi_fl.protocol.packing`
    weighted_by_key : the metric in which clients report their number of examples
    loss_metric : the metric that is a client's loss where it reports neither ``train_loss`` nor ``loss``
    arrayrecord_key, configrecord_key : the names under which model and configuration travel
    train_metrics_aggr_fn, evaluate_metrics_aggr_fn : from clients' metrics to one record, as in Flower's FedAvg; None:
        their means, weighted by examples
    """

    run: str = ""
    seed: int = 0
    min_clients: int | None = None
    join_timeout: float = _default("join_timeout")
    ask_timeout: float = _default("ask_timeout")
    train_timeout: float | None = None
    evaluate_timeout: float | None = None
    deterministic: bool = False
    evaluate_clients: int | None = None
    fraction_evaluate: float = 1.0
    min_evaluate_nodes: int = 2
    enough: int | None = None
    late_rounds: int = _default("late_rounds")
    serve_average: float = 0.0
    until: float = _default("until")
    foresight: bool = _default("foresight")
    round_seconds: float = _default("round_seconds")
    max_empty_rounds: int = 0
    compression: str = _default("compression")
    packing: str = packing.AUTO
    weighted_by_key: str = "num-examples"
    loss_metric: str = _default("loss_metric")
    arrayrecord_key: str = protocol.ARRAYS
    configrecord_key: str = protocol.CONFIG
    token: str | None = None
    train_metrics_aggr_fn: AggregateMetrics | None = None
    evaluate_metrics_aggr_fn: AggregateMetrics | None = None

    def __post_init__(self) -> None:
        coding.checked(self.compression)
        if self.packing not in packing.KINDS:
            raise ConfigError("packing", self.packing, packing.KINDS, "Choose one of these.")
        if not 0 <= self.fraction_evaluate <= 1:
            raise ConfigError("fraction_evaluate", self.fraction_evaluate, "from 0 to 1", "Choose another share.")
        if len({self.arrayrecord_key, self.configrecord_key, protocol.AOI}) < 3:
            raise ConfigError(
                "arrayrecord_key",
                self.arrayrecord_key,
                f"different from configrecord_key, {self.configrecord_key!r}, and both different from {protocol.AOI!r}",
                "Choose other names.",
            )

    def evaluators(self, connected: int) -> int:
        """Return how many of the connected clients evaluate."""
        if self.evaluate_clients is not None:
            return min(self.evaluate_clients, connected)
        if self.fraction_evaluate == 0:
            return 0
        return min(max(int(connected * self.fraction_evaluate), self.min_evaluate_nodes), connected)


@dataclass(frozen=True)
class Resume:
    """Where an interrupted run goes on.

    Attributes
    ----------
    next_round : the round after the last complete one
    clients : everyone whom the run has met, in the order in which they came
    memory : what the strategy handed to its observer after the last complete round; empty before the first
    """

    next_round: int
    clients: list[ClientRecord]
    memory: State = field(default_factory=dict)
