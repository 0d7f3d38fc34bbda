"""The keys of a run, each with its default and its range."""

from typing import Literal

from pydantic import ConfigDict, Field, field_validator

from aoi_fl.learning.settings import TaskSettings, kebab
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import AbsenceRule, Ageing, PhaseRule, RateRule
from aoi_fl.server.over_selection import over_selected
from aoi_fl.strategies.registry import OWN, POLICIES, is_policy
from aoi_fl.wire.protocol import WIRES

# What `track` may name, and the tools' own names.
TRACKERS = {"tensorboard": "TensorBoard", "mlflow": "MLflow", "wandb": "Weights & Biases"}


class RunKeys(TaskSettings):
    """Every key of a run; the defaults are those of ``pyproject.toml``, which a test compares.

    Attributes
    ----------
    policy : who takes part (POLICIES), or ``python:MODULE:NAME`` for one of your own, see
        :mod:`aoi_fl.strategies.selection.own`; its module is looked for in ``model_dir`` first
    wire : how the decentralised policy meets the wire
    num_clients, clients_per_round, max_age, exponent : n, k, m, and the increasing policy's α
    rates : each client's share of the rounds: ``equal``, by ``size``, or ``given`` by column ``rate`` of a clients file
    phases, jitter : of systematic participation, see :class:`aoi_fl.strategies.SystematicParticipation`
    candidates : how many clients some central policies choose from, see :mod:`aoi_fl.science.power_of_choice`
    round_seconds : a round begins no sooner than so many seconds after the one before it, see
        :class:`aoi_fl.strategies.RoundOptions`; 0: at once
    weights : the aggregation weights ω, see :mod:`aoi_fl.strategies.weighting`; ``auto``: the policy's own
    adaptive_dropout : whether markov-optimal makes up for lost clients, see :class:`strategies.MarkovParticipation`
    absence : whether what each client misses by being away is learned and made up for, see
        :mod:`aoi_fl.science.absence`
    total_budget : what all rounds together may spend; where it pays nobody more, the run is complete; 0: no bound
    budget, index_source, trains, strict_budget, stop_at_first : the budgeted policies, see
        :class:`strategies.BudgetedRefresh` and :class:`aoi_fl.science.budget.BudgetedSelector`
    sensitivities : φ: ``declared`` by the clients or their table, by their sizes and rates of ``staleness``, by the
        ``bound`` of Xu et al. 2024, or ``estimated`` while the run goes on
    ageing : what an age costs, for WICS: ``linear``, as in the paper, ``quadratic`` or ``root``
    staleness_rates : whether each client's data go bad at its ``own`` rate, the table's, or all alike
    clients_file : CSV of :data:`aoi_fl.wire.clients.COLUMNS`; without it they are drawn as in Xu et al. 2024
    num_server_rounds : rounds to play
    run_name, runs_dir : results lie in runs-dir/run-name; an empty name is made from policy, data set and time
    resume : go on with the run of that name where it was interrupted; runs-dir, data-dir and model-dir are this
        command's, keys of the task must be the run's own (`aoi resume` sees to that), the rest comes from its ledger
    deterministic : add updates in client order, so that equal runs are equal bit for bit
    evaluate_every : rounds between two central evaluations; the last round is always evaluated
    evaluate_clients : clients that evaluate the new model each round
    join_timeout, ask_timeout, train_timeout, evaluate_timeout : deadlines, in seconds
    compression : how updates travel, see :mod:`aoi_fl.wire.coding`
    clock : by whose presence and speed time is simulated, see :mod:`aoi_fl.engine.traces`; deadlines are then of
        simulated time; empty: it is not
    clock_start : the second of the trace at which the run begins
    over_selection : by which factor more clients than clients-per-round are sent the model; the round then takes the
        first clients-per-round updates and waits for no more
    late_rounds : how many rounds late an update may come and still be added, for less, see
        :mod:`aoi_fl.strategies.stragglers`; 0: none is
    server_momentum : momentum β of the server's step, by Flower's FedAvgM (Hsu, Qi & Brown 2019) with step length 1;
        0: the weighted mean is the new model
    serve_average : share β of an exponential average of the models, which is evaluated and saved in place of the
        newest, see :mod:`aoi_fl.strategies.serving`; 0: the newest is
    privacy : differential privacy of the models, see :mod:`aoi_fl.strategies.aggregation.private`: ``none``, or with
        ``white`` noise, or with ``banded`` noise, which cancels over rounds and needs a policy with separation
    clip : largest norm of an update in a private run
    noise_multiplier : noise over the sensitivity of all participations, see :mod:`aoi_fl.science.privacy.account`
    bands : of banded noise; 0: as many as clients take part rounds apart
    delta : δ of the ε that is recorded
    max_epsilon : the run is complete before ε is above it; 0: there is no such bound
    foresight : whether policies whose papers assume it are told when devices will be there and how long they will take
    until : seconds of simulated time after which no further round begins; 0: there is no such bound
    loss_metric : the metric that is a client's loss where it reports neither ``train_loss`` nor ``loss``
    max_empty_rounds : rounds in a row without a usable update after which the run stops; 0: it never does
    track : trackers that are told each round, separated by commas, see :mod:`aoi_fl.server.tracking`
    log_format : lines for a person, or a JSON object a line, see :mod:`aoi_fl.server.logs`
    """

    model_config = ConfigDict(alias_generator=kebab, populate_by_name=True, frozen=True, extra="forbid")

    policy: str = "markov-optimal"
    wire: Literal[WIRES] = "poll"  # type: ignore[valid-type]
    num_clients: int = Field(100, ge=1, le=1_000_000)
    clients_per_round: int = Field(15, ge=1, le=1_000_000)
    max_age: int = Field(10, ge=0, le=10_000)
    exponent: float = Field(1.0, gt=0, le=20)
    rates: RateRule = "equal"
    phases: PhaseRule = "spread"
    jitter: float = Field(0.0, ge=0, le=1)
    candidates: int = Field(0, ge=0, le=1_000_000)
    weights: Literal["auto", "equal", "size", "unbiased"] = "auto"
    adaptive_dropout: bool = False
    absence: AbsenceRule = "ignored"
    budget: float = Field(40.0, gt=0, le=1e12)
    total_budget: float = Field(0.0, ge=0, le=1e18)
    index_source: Literal["server", "bid"] = "server"
    trains: Literal["selected", "all"] = "selected"
    sensitivities: Literal["declared", "staleness", "bound", "estimated"] = "declared"
    staleness_rates: Literal["equal", "own"] = "equal"
    strict_budget: bool = False
    stop_at_first: bool = False
    ageing: Ageing = "linear"
    clients_file: str = ""
    num_server_rounds: int = Field(30, ge=1, le=1_000_000)
    run_name: str = Field("", pattern=r"^$|^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    runs_dir: str = "runs"
    resume: bool = False
    round_seconds: float = Field(0.0, ge=0, le=1_000_000)
    deterministic: bool = True
    evaluate_every: int = Field(1, ge=1, le=1_000_000)
    evaluate_clients: int = Field(0, ge=0, le=1_000_000)
    join_timeout: float = Field(60.0, gt=0, le=1_000_000)
    ask_timeout: float = Field(60.0, gt=0, le=1_000_000)
    train_timeout: float = Field(600.0, gt=0, le=1_000_000)
    evaluate_timeout: float = Field(600.0, gt=0, le=1_000_000)
    compression: Literal["none", "float16", "int8"] = "none"
    clock: str = ""
    clock_start: float = Field(0.0, ge=0, le=1e9)
    over_selection: float = Field(1.0, ge=1, le=100)
    late_rounds: int = Field(0, ge=0, le=1000)
    server_momentum: float = Field(0.0, ge=0, le=0.999)
    serve_average: float = Field(0.0, ge=0, le=0.999)
    privacy: Literal["none", "white", "banded"] = "none"
    clip: float = Field(1.0, gt=0, le=1e9)
    noise_multiplier: float = Field(1.0, gt=0, le=1e9)
    bands: int = Field(0, ge=0, le=1_000_000)
    delta: float = Field(1e-5, gt=0, le=0.5)
    max_epsilon: float = Field(0.0, ge=0, le=1e9)
    until: float = Field(0.0, ge=0, le=1e9)
    foresight: bool = False
    loss_metric: str = Field("", max_length=200)
    max_empty_rounds: int = Field(10, ge=0, le=1_000_000)
    track: str = ""
    log_format: Literal["text", "json"] = "text"

    @field_validator("policy")
    @classmethod
    def _known_policy(cls, value: str) -> str:
        if not is_policy(value):
            raise ConfigError("policy", value, (*POLICIES, OWN), "Choose one of these.")
        return value

    @field_validator("track")
    @classmethod
    def _known_trackers(cls, value: str) -> str:
        found = [name.strip() for name in value.split(",") if name.strip()]
        for i, name in enumerate(found):
            if name not in TRACKERS:
                raise ConfigError("track", name, tuple(TRACKERS), "Choose some of these, separated by commas.")
            if name in found[:i]:
                raise ConfigError(
                    "track", value, f"names that differ, and {name} is there twice", "Leave one of them out."
                )
        return ",".join(found)

    @property
    def sent(self) -> int:
        """How many clients are sent the model in a round, over-selection included."""
        return over_selected(self.clients_per_round, self.over_selection)

    @property
    def sent_as(self) -> str:
        """What messages call that number."""
        return "clients-per-round" + (" times over-selection" if self.over_selection > 1 else "")

    @property
    def trackers(self) -> list[str]:
        """The trackers that ``track`` names."""
        return self.track.split(",") if self.track else []
