"""The keys of a run in eight groups. Each key is one field with default, range and help.

The groups of the task are in :mod:`aoi_fl.config.task`.
"""

from typing import Literal

from pydantic import ValidationInfo, field_validator

from aoi_fl.config.fields import NAME_PATTERN, Group, kebab, key, seconds
from aoi_fl.config.policies import DEFAULT, OWN, POLICIES, SEPARATED, is_policy
from aoi_fl.config.task import TaskKeys, TrainingKeys
from aoi_fl.config.values import (
    MILLION,
    Compensate,
    names_of,
)
from aoi_fl.science.errors import check_choice
from aoi_fl.science.names import OLDEST, Ageing, PhaseRule, RateRule

TRACKERS = {"tensorboard": "TensorBoard", "mlflow": "MLflow", "wandb": "Weights & Biases"}
"""Values of ``track``, with the tools' own names."""


class SelectionKeys(Group):
    """Which clients take part, how they decide, and with what weight."""

    preset: Literal["recommended", "papers"] = key(
        "papers",
        "values of keys at `auto`: `papers` polls clients, and weights are each policy's own",
        see="`recommended`: where clients decide, they reserve rounds, and weights follow data sizes",
    )
    policy: str = key(
        DEFAULT,
        "selection policy",
        form=(*POLICIES, OWN),
        see="[your own policy](adopt.md)",
    )
    num_clients: int = key(
        100,
        "number of clients n that the run waits for",
        ge=1,
        le=MILLION,
        short="clients",
    )
    clients: str = key(
        "",
        "names of the clients that may join, separated by commas; `tag:TAG`: those with that tag; empty: all",
        short="roster",
        see="[named clients](deployment.md#named-clients-and-a-quorum)",
        max_length=100_000,
    )
    must_include: str = key(
        "",
        "names of clients that the server selects in every round, and without which a round does not count",
        max_length=100_000,
    )
    clients_per_round: int = key(
        0,
        "clients per round k, on average where clients decide; 0: 15 % of `num-clients`",
        ge=0,
        le=MILLION,
        short="per-round",
        see="not under a budget: `aoi run` refuses it there, a cluster and `flwr run` ignore it",
    )
    max_age: int = key(
        "auto",
        "age m from which on the probability of a Markov policy is constant; `auto`: 10, or ⌊n/k⌋ if more",
        ge=0,
        le=OLDEST,
        form=f"`auto` or a whole number from 0 to {OLDEST}",
        see="not with `rates` or `compensate=availability`, where each client's table has its own length",
    )
    exponent: float = key(1.0, "α of the probabilities p_a = 1 − exp(−s(a+1)^α)", gt=0, le=20)
    rates: RateRule = key(
        "equal",
        "each client's share of the rounds: `equal`, by `size`, or `given` by column `rate` of `clients-file`",
        see="the rates of all clients sum to k",
    )
    phases: PhaseRule = key("spread", "phases of clients: `spread` gives exactly k per round with equal rates")
    jitter: float = key(0.0, "largest delay of each participation, as a share of the client's stride", ge=0, le=1)
    candidates: int = key(0, "clients that the policy draws first; 0: twice as many as it selects", ge=0, le=MILLION)
    weights: Literal["auto", "equal", "size", "unbiased"] = key(
        "auto", "aggregation weights ω; `auto`: the policy's own; `unbiased`: q/r, where the rates r are known"
    )
    compensate: Compensate = key(
        "none",
        "estimate how often updates are lost (`dropout`), or when clients are available, and correct for it",
        see="[dropout](results/dropout.md); `availability` sends rates or tables for each client",
    )
    foresight: bool = key(
        False,
        "in simulated time, give policies the availability and speed of all devices",
        see="no real server knows this; the policies' papers assume it",
    )

    coordination: Literal["auto", "poll", "broadcast", "reserve"] = key(
        "auto",
        "how clients decide: `poll` asks all, `broadcast` sends all the model, `reserve` announces next rounds",
        see="a policy with `phases` needs the fewest messages with `reserve`",
    )

    @field_validator("clients", "must_include")
    @classmethod
    def _distinct_names(cls, value: str, info: ValidationInfo) -> str:
        return ",".join(names_of(kebab(str(info.field_name)), value))

    @field_validator("policy")
    @classmethod
    def _known_policy(cls, value: str) -> str:
        if not is_policy(value):
            raise ValueError
        return value


class RoundKeys(Group):
    """How a round runs."""

    num_server_rounds: int = key(30, "number of rounds", ge=1, le=MILLION, short="rounds")
    evaluate_every: int = key(1, "rounds between two tests of the model on the server", ge=1, le=MILLION)
    evaluate_clients: int = key(
        0,
        "clients that evaluate the new model each round on their own data",
        ge=0,
        le=MILLION,
        see="with `coordination=poll` their reply also has their decision on the next round",
    )
    join_timeout: float = key(60.0, "seconds to wait for clients to connect", gt=0, le=MILLION)
    ask_timeout: float = key(60.0, "seconds to wait for answers to questions", gt=0, le=MILLION)
    train_timeout: float = key(
        600.0,
        "seconds to wait for updates",
        gt=0,
        le=MILLION,
        short="deadline",
        see="evaluations have the same time, but at least ten minutes",
    )
    round_seconds: float = key(
        0.0, "shortest time from one round's start to the next in seconds, where clients decide", ge=0, le=MILLION
    )
    compression: Literal["none", "float16", "int8"] = key(
        "none",
        "code of updates: `float16` halves the bytes, `int8` quarters them, with error feedback",
        see="[cost in accuracy](results/modes.md)",
    )
    packing: Literal["auto", "none"] = key(
        "auto", "over a network a model is one object; `none`: each array is one, as to a client with another ClientApp"
    )
    over_selection: float = key(
        1.0, "factor by which more clients receive the model than updates are awaited", ge=1, le=100
    )
    late_rounds: int = key(
        0,
        "rounds that an update may be late and still count",
        ge=0,
        le=1000,
        see="with [less weight](policies.md#updates-that-come-late); with `buffer` the largest staleness of an update, "
        "in models",
    )
    buffer: int = key(
        0,
        "updates, of any clients, that make a new model; 0: those of the round's clients",
        ge=0,
        le=MILLION,
        see="a round is then one model, and `clients-per-round` clients are at work: "
        "[how](how.md#rounds-without-a-barrier)",
    )
    staleness_power: float = key(
        0.5, "p of the factor (1+s)^−p for an update that is s models old, with `buffer`", ge=0, le=10
    )
    server_momentum: float = key(
        0.0,
        "momentum of the server's step, as in FedAvgM with step length 1",
        ge=0,
        le=0.999,
    )
    serve_average: float = key(
        0.0,
        "share β of an average of the models of all rounds, which is evaluated and saved",
        ge=0,
        le=0.999,
        see="a tested setting is 0.8 with `server-momentum=0.5`",
    )
    min_updates: int = key(
        0, "updates without which a round does not count: the model stays, and ages go on; 0: one", ge=0, le=MILLION
    )
    max_weight: float = key(
        1.0, "largest share of one client in a round's weights; below 1 the server keeps a round's updates", gt=0, le=1
    )
    volunteer_error: float = key(
        0.0,
        "take no client more often than its rule explains; the probability that this ever hits an honest one",
        see="0: every volunteer is taken",
        ge=0,
        le=0.1,
    )
    max_empty_rounds: int = key(
        10, "rounds in a row without a usable update before the run stops; 0: never", ge=0, le=MILLION
    )


class PrivacyKeys(Group):
    """Differential privacy of the models."""

    privacy: Literal["none", "white", "banded"] = key(
        "none",
        "client-level differential privacy: `white` noise, or `banded` noise that cancels over rounds",
        see=f"[the guarantee](privacy.md); `banded` needs one of {', '.join(f'`{name}`' for name in SEPARATED)}",
    )
    bands: int = key(0, "bands of banded noise; 0: as many as rounds between two participations", ge=0, le=MILLION)
    clip: float = key(1.0, "largest norm of an update; a larger update is scaled down", gt=0, le=1e9)
    noise_multiplier: float = key(
        1.0, "noise over the sensitivity of all participations; `aoi privacy --epsilon E` finds it", gt=0, le=1e9
    )
    delta: float = key(1e-5, "δ of the ε in the ledger, below 1 / `num-clients`", ge=1e-15, le=0.5)
    max_epsilon: float = key(0.0, "the run completes before ε exceeds it; 0: no bound", ge=0, le=1e9)
    metrics: Literal["hidden", "clear"] = key(
        "hidden",
        "what a private run records of clients beside their participation: nothing, or all that they report",
        see="`clear` also lets clients evaluate the model; no noise covers what they report",
    )


class BudgetKeys(Group):
    """The policies that select the clients to refresh their data under a budget."""

    budget: float = key(40.0, "spending per round B", ge=1e-9, le=1e12)
    total_budget: float = key(0.0, "spending of all rounds; 0: no limit", ge=0, le=1e18)
    index_source: Literal["server", "bid"] = key(
        "server", "computation of the indices: by the server, or by each client"
    )
    trains: Literal["selected", "all"] = key(
        "selected", "clients that train: the refreshed ones, or all; the selected ones refresh first"
    )
    sensitivities: Literal["declared", "staleness", "bound", "estimated"] = key(
        "declared", "source of φ: the clients or their file, their staleness, eq. (10) of Xu et al., or their losses"
    )
    ageing: Ageing = key("linear", "cost of an age: `linear` as in the paper, `quadratic` or `root`")
    clients_file: str = key(
        "",
        "CSV file of clients: `name,size,payment,sensitivity,age,staleness`, or `rate` for `rates=given`",
        see="empty: clients are drawn as in Xu et al. 2024, Section 5",
    )


class ClockKeys(Group):
    """Simulated time."""

    clock: str = key(
        "",
        "simulate time: `always`, `bernoulli:SHARE`, `generated` or a trace file; deadlines are then simulated",
        see="[how](clock.md); `aoi run` only",
    )
    clock_start: float = key(
        0.0, "second of the trace at which the run starts; -1: a whole hour drawn by `seed`", ge=-1, le=1e9
    )
    until: float = key(
        0.0, "simulated time after which no round starts: seconds, or 6h, 90min, 3d; 0: no limit", ge=0, le=1e9
    )

    @field_validator("until", mode="before")
    @classmethod
    def _with_a_unit(cls, value: object) -> object:
        return seconds(value) if isinstance(value, str) else value


class OutputKeys(Group):
    """Where results go."""

    run_name: str = key("", "name of the run; empty: made from policy, data set and time", pattern=NAME_PATTERN)
    runs_dir: str = key("runs", "folder of all runs")
    resume: bool = key(
        False, "continue the run of that name; keys of the task must be the same, and the run's ledger has the others"
    )
    track: str = key(
        "",
        "trackers to inform each round, separated by commas: `tensorboard`, `mlflow`, `wandb`",
        see="[trackers](own.md#tracking)",
    )
    log_format: Literal["text", "json"] = key("text", "form of the server's log on stderr")

    @field_validator("track")
    @classmethod
    def _known_trackers(cls, value: str) -> str:
        for name in (names := names_of("track", value)):
            check_choice("track", name, TRACKERS)
        return ",".join(names)


GROUPS: tuple[type[Group], ...] = (
    TaskKeys,
    TrainingKeys,
    SelectionKeys,
    RoundKeys,
    PrivacyKeys,
    BudgetKeys,
    ClockKeys,
    OutputKeys,
)
