"""The configuration of a run: one model over Flower's flat keys, checked whole before the first message."""

import math
import re
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator

from aoi_fl.learning.settings import DATASETS, MODELS, TaskSettings, kebab
from aoi_fl.science.errors import ConfigError, did_you_mean
from aoi_fl.science.names import AbsenceRule, Ageing, PhaseRule, RateRule
from aoi_fl.strategies.registry import BUDGETED, KEYS, POLICIES, REGISTRY, users_of
from aoi_fl.wire.protocol import WIRES

# What `track` may name, and the tools' own names.
TRACKERS = {"tensorboard": "TensorBoard", "mlflow": "MLflow", "wandb": "Weights & Biases"}


class RunConfig(TaskSettings):
    """Every key of a run; the defaults are those of ``pyproject.toml``, which a test compares.

    Attributes
    ----------
    policy : who takes part (POLICIES)
    wire : how the decentralised policy meets the wire
    num_clients, clients_per_round, max_age, exponent : n, k, m, and the increasing policy's α
    rates : each client's share of the rounds: ``equal``, by ``size``, or ``given`` by column ``rate`` of a clients file
    phases, jitter : of systematic participation, see :class:`aoi_fl.strategies.SystematicParticipation`
    candidates : how many clients some central policies choose from, see :mod:`aoi_fl.science.power_of_choice`
    round_seconds : a round begins no sooner than so many seconds after the one before it, see
        :class:`aoi_fl.strategies.selection.decentralised.DecentralisedParticipation`; 0: at once
    weights : the aggregation weights ω, see :mod:`aoi_fl.strategies.weighting`; ``auto``: the policy's own
    adaptive_dropout : whether markov-optimal makes up for lost clients, see :class:`strategies.MarkovParticipation`
    absence : whether what each client misses by being away is learned and made up for, see
        :mod:`aoi_fl.science.absence`
    total_budget : what all rounds together may spend; where it pays nobody more, the run is complete; 0: no bound
    budget, index_source, trains, strict_budget, stop_at_first : the budgeted policies, see
        :class:`strategies.BudgetedRefresh` and :class:`aoi_fl.science.budget.BudgetedSelector`
    sensitivities : φ: ``declared`` by the clients or their table, by their sizes and rates of ``staleness``, or
        ``estimated`` while the run goes on
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
    foresight : whether policies whose papers assume it are told when devices will be there and how long they will take
    until : seconds of simulated time after which no further round begins; 0: there is no such bound
    max_empty_rounds : rounds in a row without a usable update after which the run stops; 0: it never does
    track : trackers that are told each round, separated by commas, see :mod:`aoi_fl.server.tracking`
    log_format : lines for a person, or a JSON object a line, see :mod:`aoi_fl.server.logs`
    """

    model_config = ConfigDict(alias_generator=kebab, populate_by_name=True, frozen=True, extra="forbid")

    policy: Literal[POLICIES] = "markov-optimal"  # type: ignore[valid-type]
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
    sensitivities: Literal["declared", "staleness", "estimated"] = "declared"
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
    until: float = Field(0.0, ge=0, le=1e9)
    foresight: bool = False
    max_empty_rounds: int = Field(10, ge=0, le=1_000_000)
    track: str = ""
    log_format: Literal["text", "json"] = "text"

    @field_validator("track")
    @classmethod
    def _known_trackers(cls, value: str) -> str:
        found = [name.strip() for name in value.split(",") if name.strip()]
        for i, name in enumerate(found):
            if name not in TRACKERS:
                raise ValueError(
                    f"choose of {', '.join(TRACKERS)}, separated by commas.{did_you_mean(name, TRACKERS)}".rstrip(".")
                )
            if name in found[:i]:
                raise ValueError(f"{name} is named twice")
        return ",".join(found)

    @model_validator(mode="after")
    def _feasible(self) -> Self:
        if self.policy not in BUDGETED and self.clients_per_round > self.num_clients:
            raise ValueError(
                f"clients-per-round is {self.clients_per_round}, more than num-clients, {self.num_clients}: lower the "
                "one or raise the other"
            )
        if not self.resume:
            self._check_use()
        if (self.rates == "given") != bool(self.clients_file) and self.policy not in BUDGETED:
            raise ValueError(
                f"rates is {self.rates} and clients-file is {self.clients_file!r}: rates=given and a clients-file with "
                "a column rate go together"
            )
        if self.round_seconds and self.clock:
            raise ValueError(
                f"round-seconds is {self.round_seconds:g}, and clock is {self.clock}: in simulated time nobody waits "
                "for a round to begin; leave one of them out"
            )
        if self.staleness_rates == "own" and self.staleness != "mislabelled":
            raise ValueError(
                f"staleness-rates is own, but staleness is {self.staleness}: only mislabelled data go bad at rates of "
                "their own; set staleness to mislabelled, or staleness-rates to equal"
            )
        if self.candidates and not self.sent <= self.candidates <= self.num_clients:
            least = "clients-per-round" + (" times over-selection" if self.over_selection > 1 else "")
            raise ValueError(
                f"candidates is {self.candidates}: give {least}, {self.sent}, to num-clients, {self.num_clients}; 0 "
                "for twice as many as the former"
            )
        if self.absence == "learned" and self.adaptive_dropout:
            raise ValueError(
                "absence is learned and adaptive-dropout is true: both make up for who is not there; set one of them "
                "back"
            )
        if self.absence == "learned" and (self.jitter or self.phases != "spread"):
            raise ValueError(
                f"absence is learned, but jitter is {self.jitter:g} and phases is {self.phases}: set them back to 0 "
                "and spread, or absence to ignored"
            )
        if self.clock_start and not self.clock:
            raise ValueError(f"clock-start is {self.clock_start:g}, a second of a trace, but clock is empty: set clock")
        if self.until and not self.clock:
            raise ValueError(f"until is {self.until:g}, in seconds of simulated time, but clock is empty: set clock")
        if self.foresight and not self.clock:
            raise ValueError(
                "foresight is true, but clock is empty: only where time is simulated does anybody foresee it"
            )
        weights = REGISTRY[self.policy].weight if self.weights == "auto" else self.weights
        if self.late_rounds and (self.policy in BUDGETED or weights == "unbiased"):
            budgeted = f"policy {self.policy} goes by its budget"
            why = budgeted if self.policy in BUDGETED else f"weights of {self.policy} is unbiased"
            raise ValueError(f"late-rounds is {self.late_rounds}, but {why}: leave one of them out")
        if self.over_selection > 1:
            if self.policy in BUDGETED:
                raise ValueError(
                    f"over-selection is {self.over_selection:g}, but policy {self.policy} goes by its budget: leave "
                    "over-selection out"
                )
            check_over_selection(self.over_selection, self.clients_per_round, self.num_clients, self.weights)
        if self.resume and not self.run_name:
            raise ValueError("resume is true, but run-name is empty: say which run is to go on")
        return self

    def _check_use(self) -> None:
        """Refuse what has no effect; a run that goes on may have been begun by a version that let it pass."""
        for key in sorted(KEYS - REGISTRY[self.policy].keys):
            name = key.replace("-", "_")
            value = getattr(self, name)
            if value != _default(name):
                raise ValueError(
                    f"{key} is {_plain(value)}, but policy {self.policy} does not use it: leave it out, or choose one "
                    f"of the policies that do, {', '.join(users_of(key))}"
                )
        for key, other, wanted in _BELONGS:
            name = key.replace("-", "_")
            if getattr(self, name) != _default(name) and getattr(self, other) != wanted:
                raise ValueError(
                    f"{key} is {_plain(getattr(self, name))}, but {other} is {getattr(self, other)}, which does not "
                    f"use it: leave it out, or set {other} to {wanted}"
                )
        if self.discount and (self.staleness == "none" or self.policy not in BUDGETED):
            why = "data do not age" if self.staleness == "none" else f"policy {self.policy} refreshes nobody's data"
            raise ValueError(
                f"discount is {self.discount:g}, but staleness is {self.staleness} and {why}: it weighs what a refresh "
                "has replaced; leave it out, or set staleness to mislabelled or stream under a budgeted policy"
            )
        if self.policy in BUDGETED and (self.partition != "iid" or self.sizes != "equal"):
            key, value = ("sizes", self.sizes) if self.partition == "iid" else ("partition", self.partition)
            raise ValueError(
                f"{key} is {value}, but under policy {self.policy} each client has as many images as clients-file or "
                "the instance that is drawn says, of all classes: leave it out"
            )
        if self.sensitivities == "estimated" and self.trains == "selected":
            raise ValueError(
                "sensitivities is estimated, but trains is selected: whoever trains has just refreshed, and losses on "
                "fresh data say nothing of age; set trains to all, or sensitivities to staleness or declared"
            )
        if (self.rates != "equal" or self.absence == "learned") and self.max_age != _default("max_age"):
            raise ValueError(
                f"max-age is {self.max_age}, but rates is {self.rates} and absence is {self.absence}: then each client "
                "has a table of its own, which is as long as it needs to be; leave max-age out"
            )

    @property
    def sent(self) -> int:
        """How many clients are sent the model in a round, over-selection included."""
        return over_selected(self.clients_per_round, self.over_selection)

    @property
    def trackers(self) -> list[str]:
        """The trackers that ``track`` names."""
        return self.track.split(",") if self.track else []

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> "RunConfig":
        """Check a flat configuration and fill in the data set's defaults.

        Raises
        ------
        ConfigError
            One paragraph that names every wrong key, its value, what is allowed and what to do.
        """
        try:
            return cls.model_validate(dict(values)).resolved()
        except ValidationError as error:
            raise ConfigError(" ".join(_sentence(e) for e in error.errors())) from None

    def flat(self) -> dict[str, bool | int | float | str]:
        """Return the configuration as Flower's flat mapping."""
        return self.model_dump(by_alias=True)


def over_selected(per_round: int, factor: float) -> int:
    """Return how many clients are sent the model where a round wants so many updates and takes the first of them.

    >>> over_selected(15, 1.3), over_selected(10, 1.1)
    (20, 11)
    """
    return math.ceil(per_round * factor - 1e-9)


def check_over_selection(factor: float, per_round: int, clients: int, weights: str) -> None:
    """Raise ConfigError where a factor above 1 does not go with the weights, or takes more clients than there are."""
    what, sent = f"over-selection is {factor:g}", over_selected(per_round, factor)
    if weights == "unbiased":
        raise ConfigError(f"{what}, and weights is unbiased: who is fast would count too much; set one of them back")
    if sent > clients:
        raise ConfigError(
            f"{what}, which makes {sent} of {per_round} clients a round, more than num-clients, {clients}: lower it"
        )


# Keys that belong to a value of another one.
_BELONGS = (
    ("alpha", "partition", "dirichlet"),
    ("mislabel-rate", "staleness", "mislabelled"),
    ("mislabel-cap", "staleness", "mislabelled"),
    ("drift-degrees", "staleness", "stream"),
    ("stream-window", "staleness", "stream"),
)


def variable(key: str) -> str:
    """Return the name of the environment variable that sets a run key in a cluster."""
    return "AOI_" + key.upper().replace("-", "_")


def _default(name: str) -> Any:
    return RunConfig.model_fields[name].default


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _sentence(error: Any) -> str:
    key = kebab(str(error["loc"][0])) if error["loc"] else None
    if error["type"] == "extra_forbidden":
        keys = sorted(kebab(name) for name in RunConfig.model_fields)
        return f"{key} is no run key.{did_you_mean(str(key), keys)} The keys are {', '.join(keys)}."
    message = str(error["msg"]).removeprefix("Value error, ")
    if key is None:
        return f"{message}."
    if key == "run-name":
        message = "use letters, digits, '.', '_' and '-', at most 100, beginning with a letter or a digit"
    allowed = re.findall(r"'([^']+)'", str(error.get("ctx", {}).get("expected", "")))
    known = {"dataset": DATASETS, "model": MODELS}.get(str(key), allowed)
    near = did_you_mean(str(error["input"]), known)
    remedy = f"Set it with -c {key}=VALUE (a cluster: {variable(key)})."
    ending = "" if message.endswith("?") else "."
    return f"{key} is {error['input']!r}: {message[0].lower()}{message[1:]}{ending}{near} {remedy}"
