"""The parameter objects of a run: the options of its rounds, and the state from which a run resumes."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from flwr.app import MetricRecord, RecordDict

from aoi_fl import protocol
from aoi_fl.config.fields import check_range
from aoi_fl.config.keys import RunKeys
from aoi_fl.protocol import coding, packing
from aoi_fl.protocol.records import ClientRecord, State
from aoi_fl.science.errors import ConfigError, check_choice

# From the accepted replies without their arrays, and the name of the weighting metric, to one record.
AggregateMetrics: TypeAlias = Callable[[list[RecordDict], str], MetricRecord]


def _key(name: str, **flowers: Any) -> Any:
    """Return the option of a run key, with the key's range and default; ``default`` is Flower's where that differs."""
    key = RunKeys.model_fields[name]
    return field(metadata={"key": key}, **{"default": key.default, **flowers})


@dataclass(frozen=True)
class RoundOptions:
    """How a round runs, under every policy.

    An option with the name of a run key has the key's range and meaning (:class:`aoi_fl.config.groups.Round`). It has
    the key's default too, except for four options with Flower's defaults: ``seed``, ``train_timeout``,
    ``evaluate_clients`` and ``max_empty_rounds``. The other options belong to a strategy in your own app.

    Attributes
    ----------
    run : name of the run, sent in every message; empty: made from Flower's run id
    token : text that distinguishes the run from an earlier one of the same name
    seed : seed of the server's draws
    min_clients : connected clients that round 1 needs; None: as many as the policy needs
    join_timeout, ask_timeout : deadlines in seconds
    train_timeout, evaluate_timeout : deadlines in seconds; None: the ``timeout`` of ``start``
    deterministic : whether updates are added in client order, so that equal runs are equal bit for bit
    evaluate_clients : clients that evaluate the new model each round; None: by the next two options
    fraction_evaluate, min_evaluate_nodes : share of the connected clients that evaluate, and their least number, as in
        Flower's FedAvg
    enough : updates that end a round under over-selection; None: the round ends at its deadline
    late_rounds : rounds that an update may be late and still count, see :mod:`aoi_fl.strategies.round.at_work`
    buffer : updates that make a new model, of any clients; 0: those of the round's clients
    at_work : clients at work with a buffer; None: as many as the policy selects
    staleness_power : p of the factor (1+s)^−p for an update that is s models old, with a buffer
    serve_average : share β of an exponential average of the models, which is evaluated and saved, see
        :mod:`aoi_fl.strategies.serving`; 0: the newest model is
    until : simulated seconds after which no round starts; 0: no limit
    foresight : whether policies see the future of a simulated clock, where their papers assume it
    round_seconds : shortest time from one round's start to the next in seconds
    clients : names of the clients that may join, separated by commas, or ``tag:TAG``; empty: all
    names : the clients' names in order of their numbers, for clients that introduce themselves by number only
    must_include : names of clients that are selected in every round, and without which a round does not count
    min_updates : updates without which a round does not count
    max_weight : largest share of one client in a round's weights
    volunteer_error : probability that the server ever leaves out a client that keeps to its rule, see
        :mod:`aoi_fl.strategies.selection.volunteers`; 0: it takes each volunteer
    max_empty_rounds : rounds in a row without a usable update before the run stops; 0: never
    compression : coding of updates, see :mod:`aoi_fl.protocol.coding`
    packing : ``auto`` or ``none``: whether a model travels as one array, see :mod:`aoi_fl.protocol.packing`
    weighted_by_key : metric with a client's number of examples
    measured : names of arrays that training measures, as batch normalisation does: they are averaged, outside momentum
    arrayrecord_key, configrecord_key : names of model and configuration in a message
    train_metrics_aggr_fn, evaluate_metrics_aggr_fn : make one record of the clients' metrics, as in Flower's FedAvg;
        None: means, weighted by examples

    Raises
    ------
    ConfigError
        An option is out of its range.
    """

    run: str = ""
    seed: int = _key("seed", default=0)
    min_clients: int | None = None
    join_timeout: float = _key("join_timeout")
    ask_timeout: float = _key("ask_timeout")
    train_timeout: float | None = _key("train_timeout", default=None)
    evaluate_timeout: float | None = None
    deterministic: bool = False
    evaluate_clients: int | None = _key("evaluate_clients", default=None)
    fraction_evaluate: float = 1.0
    min_evaluate_nodes: int = 2
    enough: int | None = None
    late_rounds: int = _key("late_rounds")
    buffer: int = _key("buffer")
    at_work: int | None = None
    staleness_power: float = _key("staleness_power")
    serve_average: float = _key("serve_average")
    until: float = _key("until")
    foresight: bool = _key("foresight")
    round_seconds: float = _key("round_seconds")
    clients: str = _key("clients")
    names: tuple[str, ...] = ()
    must_include: str = _key("must_include")
    min_updates: int = _key("min_updates")
    max_weight: float = _key("max_weight")
    volunteer_error: float = _key("volunteer_error")
    max_empty_rounds: int = _key("max_empty_rounds", default=0)
    compression: str = _key("compression")
    packing: str = packing.AUTO
    weighted_by_key: str = "num-examples"
    arrayrecord_key: str = protocol.ARRAYS
    configrecord_key: str = protocol.CONFIG
    measured: tuple[str, ...] = ()
    token: str | None = None
    train_metrics_aggr_fn: AggregateMetrics | None = None
    evaluate_metrics_aggr_fn: AggregateMetrics | None = None

    def __post_init__(self) -> None:
        for option in fields(self):
            if (key := option.metadata.get("key")) is not None:
                check_range(option.name, getattr(self, option.name), key)
        coding.checked(self.compression)
        check_choice("packing", self.packing, packing.KINDS)
        if not 0 <= self.fraction_evaluate <= 1:
            raise ConfigError("fraction_evaluate", self.fraction_evaluate, "from 0 to 1", "Choose another share.")
        if len({self.arrayrecord_key, self.configrecord_key, protocol.AOI}) < 3:
            raise ConfigError(
                "arrayrecord_key",
                self.arrayrecord_key,
                f"different from configrecord_key, {self.configrecord_key!r}, and both different from {protocol.AOI!r}",
                "Choose other names.",
            )

    @property
    def code(self) -> str | None:
        """The coding that clients are asked for; None: none."""
        return None if self.compression == coding.NONE else self.compression

    def evaluators(self, connected: int) -> int:
        """Return how many of the connected clients evaluate."""
        if self.evaluate_clients is not None:
            return min(self.evaluate_clients, connected)
        if self.fraction_evaluate == 0:
            return 0
        return min(max(int(connected * self.fraction_evaluate), self.min_evaluate_nodes), connected)


@dataclass(frozen=True)
class Resume:
    """The state from which a run resumes.

    Attributes
    ----------
    next_round : the round after the last complete one
    clients : all clients of the run, in order of arrival
    memory : state of the strategy after the last complete round, as its observer received it; empty before the first
    """

    next_round: int
    clients: list[ClientRecord]
    memory: State = field(default_factory=dict)
