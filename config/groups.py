"""The keys of a run in eight groups. A key is one field: default, range and help stand here and nowhere else."""

from typing import Literal

from pydantic import field_validator

from aoi_fl.config.fields import NAME_PATTERN, Group, key, seconds
from aoi_fl.config.policies import OWN, POLICIES, is_policy
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import AbsenceRule, Ageing, PhaseRule, RateRule, is_well_formed

DATASETS = ("digits", "mnist", "fashion-mnist", "cifar10", "cifar100")
MODELS = ("lr", "svm", "2nn", "cnn")
OWN_DATA = ("csv:", "parquet:", "npz:")
"""How a data set of your own begins; its file follows."""
OWN_MODEL = "python:MODULE:FUNCTION"
"""How a model of your own is named."""
CROP_FLIP, BFLOAT16 = "crop-flip", "bfloat16"
TRACKERS = {"tensorboard": "TensorBoard", "mlflow": "MLflow", "wandb": "Weights & Biases"}
"""What ``track`` may name, and the tools' own names."""
MILLION = 1_000_000


class Task(Group):
    """What is learnt, and from which data."""

    dataset: str = key(
        "digits", "data set: `digits`, `mnist`, `fashion-mnist`, `cifar10`, `cifar100`, or your own file",
        see="your own: `csv:FILE`, `parquet:FILE` or `npz:FILE` ([how](own.md#data))",
    )  # fmt: skip
    target: str = key("", "column to predict, of `dataset=csv:FILE` or `parquet:FILE`", max_length=200)
    client: str = key(
        "", "column, or array of `npz:FILE`, that names the client of each row; empty: rows are divided by `partition`",
        max_length=200, see="`num-clients` is then the number of its values",
    )  # fmt: skip
    data_dir: str = key("data", "folder of the data sets; missing ones are downloaded to it")
    model: str = key(
        "auto", "model: `lr`, `svm`, `2nn`, `cnn` or `python:MODULE:FUNCTION`",
        see="`auto`: `2nn` for the digits and your own data, else `cnn`; [your own model](own.md#model)",
    )  # fmt: skip
    model_dir: str = key(".", "folder that is searched first for the module of your own model or policy")
    zeros: bool = key(False, "start `lr` or `svm` at zero")
    partition: Literal["iid", "dirichlet"] = key("iid", "how examples are divided among clients")
    alpha: float = key(0.6, "concentration of `partition=dirichlet`", ge=0.001, le=MILLION)
    sizes: str = key("equal", "examples per client of an IID partition: `equal`, `zipf:A` or `uniform:LO:HI`")
    spare_shares: int = key(
        0, "shares of the data beyond `num-clients`, for clients that join a running cluster", ge=0, le=MILLION
    )  # fmt: skip
    staleness: Literal["none", "mislabelled"] = key(
        "none", "what age does to data: labels become wrong",
        see="only `wics`, `abs`, `maxpack` and `random-budget` refresh data; under other policies data only age",
    )  # fmt: skip
    mislabel_rate: float = key(0.05, "share of labels that become wrong per round of age", ge=0, le=1)
    mislabel_cap: float = key(0.9, "largest share of wrong labels", ge=0, le=1)
    discount: float = key(
        0.0, "weight γ of replaced data per round of age; 0: replaced data are not used", ge=0, le=1,
        see="Xu et al. 2024, Section 7; under a budget, with `staleness`",
    )  # fmt: skip
    seed: int = key(1, "seed of every draw", ge=0, lt=2**63)

    @field_validator("dataset")
    @classmethod
    def _known_dataset(cls, value: str) -> str:
        if value not in DATASETS and not value.startswith(OWN_DATA):
            remedy = "Choose one of these; docs/own.md: your own data."
            raise ConfigError("dataset", value, (*DATASETS, *(f"{kind}FILE" for kind in OWN_DATA)), remedy)
        return value

    @field_validator("model")
    @classmethod
    def _known_model(cls, value: str) -> str:
        if value not in ("auto", *MODELS) and not is_well_formed(value):
            raise ConfigError("model", value, ("auto", *MODELS, OWN_MODEL), "Choose one of these.")
        return value


class Training(Group):
    """How a client trains."""

    learning_rate: float = key(0.0, "step size; 0: 0.2 for the digits, else 0.1", ge=0, le=1000)
    learning_rate_decay: float = key(
        0.0, "factor of the step size per round; 0: 0.98 for the digits, else 0.998", ge=0, le=1
    )
    batch_size: int = key(0, "examples per step; 0: 10 for the digits, else 50", ge=0, le=MILLION)
    local_epochs: int = key(0, "passes over the client's data per round; 0: 10 for the digits, else 5", ge=0, le=10**5)
    local_steps: int = key(0, "mini-batches τ per round instead of passes; 0: passes", ge=0, le=10**7)
    augment: Literal["none", "crop-flip"] = key(
        "none", "`crop-flip` moves images by up to four pixels and flips them, anew in each pass"
    )
    precision: Literal["float32", "tf32", "bfloat16"] = key(
        "float32", "precision of the products of training; `tf32` needs a GPU"
    )
    device: Literal["auto", "cpu", "cuda"] = key("auto", "where to compute; `auto`: a GPU if there is one")
    threads: int = key(
        1, "torch threads, at most as many as cores", ge=1, le=1024,
        see="results of different counts differ in the last bits",
    )  # fmt: skip
    train_together: Literal["auto", "always", "never"] = key(
        "auto", "train the clients of one process in one program; `auto`: on a GPU, without `--workers`",
        see="results differ a little, see below",
    )  # fmt: skip


class Selection(Group):
    """Which clients take part, and with what weight."""

    preset: Literal["recommended", "papers"] = key(
        "papers", "what keys at `auto` stand for: `papers` polls clients and gives them equal weights",
        see="`recommended`: where clients decide, they reserve rounds, and weights follow data sizes",
    )  # fmt: skip
    policy: str = key(
        "markov-optimal", "selection policy",
        see="[your own policy](adopt.md)",
    )  # fmt: skip
    num_clients: int = key(
        100, "number of clients n that the run waits for", ge=1, le=MILLION, short="clients",
    )  # fmt: skip
    clients_per_round: int = key(
        0, "clients per round k, on average where clients decide; 0: 15 % of `num-clients`", ge=0, le=MILLION,
        short="per-round",
        see="not under a budget: `aoi run` refuses it there, a cluster and `flwr run` ignore it",
    )  # fmt: skip
    max_age: int = key(
        10, "age m from which on the probability of a Markov policy is constant", ge=0, le=10_000,
        see="not with `rates` or `absence=learned`, where each client's table has its own length",
    )  # fmt: skip
    exponent: float = key(1.0, "α of `markov-increasing`, p_a = 1 − exp(−s(a+1)^α)", gt=0, le=20)
    rates: RateRule = key(
        "equal", "each client's share of the rounds: `equal`, by `size`, or `given` by column `rate` of `clients-file`",
        see="the rates of all clients sum to k",
    )  # fmt: skip
    phases: PhaseRule = key("spread", "phases of `systematic`: `spread` gives exactly k per round with equal rates")
    jitter: float = key(0.0, "largest delay of a `systematic` client, as a share of its stride", ge=0, le=1)
    candidates: int = key(
        0, "clients that `pow-d`, `rpow-d` and `fedcs` draw first; 0: twice as many as they select", ge=0, le=MILLION
    )
    weights: Literal["auto", "equal", "size", "unbiased"] = key(
        "auto", "aggregation weights ω; `auto`: the policy's own; `unbiased`: q/r, where the rates r are known"
    )
    adaptive_dropout: bool = key(
        False, "estimate how often updates are lost, and send tables that correct for it",
        see="[dropout](results/dropout.md)",
    )  # fmt: skip
    absence: AbsenceRule = key(
        "ignored", "`learned`: learn when each client is available, and send rates or tables that correct for it"
    )
    foresight: bool = key(
        False, "tell policies of simulated time when devices are available and how fast they are",
        see="no real server knows this; the policies' papers assume it",
    )  # fmt: skip

    @field_validator("policy")
    @classmethod
    def _known_policy(cls, value: str) -> str:
        if not is_policy(value):
            raise ConfigError("policy", value, (*POLICIES, OWN), "Choose one of these.")
        return value


class Coordination(Group):
    """How a client's own decision travels."""

    coordination: Literal["auto", "poll", "broadcast", "reserve"] = key(
        "auto", "how clients decide: `poll` asks all, `broadcast` sends all the model, `reserve` announces next rounds",
        see="`systematic` needs the fewest messages with `reserve`",
    )  # fmt: skip


class Round(Group):
    """How a round runs."""

    num_server_rounds: int = key(30, "number of rounds", ge=1, le=MILLION, short="rounds")
    deterministic: bool = key(True, "add updates in client order, so that equal runs are equal bit for bit")
    evaluate_every: int = key(1, "rounds between two tests of the model on the server", ge=1, le=MILLION)
    evaluate_clients: int = key(
        0, "clients that evaluate the new model each round on their own data", ge=0, le=MILLION,
        see="with `coordination=poll` their reply also says whether they take part in the next round",
    )  # fmt: skip
    join_timeout: float = key(60.0, "seconds to wait for clients to connect", gt=0, le=MILLION)
    ask_timeout: float = key(60.0, "seconds to wait for answers to questions", gt=0, le=MILLION)
    train_timeout: float = key(600.0, "seconds to wait for updates", gt=0, le=MILLION, short="deadline")
    evaluate_timeout: float = key(600.0, "seconds to wait for evaluations", gt=0, le=MILLION)
    round_seconds: float = key(
        0.0, "shortest time from one round's start to the next in seconds, where clients decide", ge=0, le=MILLION
    )
    compression: Literal["none", "float16", "int8"] = key(
        "none", "how updates travel: `float16` halves the bytes, `int8` quarters them, with error feedback",
        see="cost in accuracy on [digits](results/compression.md) and [MNIST](results/compression-mnist.md)",
    )  # fmt: skip
    packing: Literal["auto", "none"] = key(
        "auto", "`auto`: a model travels between server and clients as one object; `none`: each array by itself",
        see="over a network only; a client with another ClientApp gets each array by itself",
    )  # fmt: skip
    over_selection: float = key(
        1.0, "factor by which more clients receive the model than updates are awaited", ge=1, le=100
    )
    late_rounds: int = key(
        0, "rounds that an update may be late and still count, for [less](selectors.md)", ge=0, le=1000
    )
    server_momentum: float = key(
        0.0, "momentum β of the server's step, Flower's FedAvgM with step length 1; 0: the weighted mean", ge=0,
        le=0.999, see="a tested setting is 0.5 with `serve-average=0.8`",
    )  # fmt: skip
    serve_average: float = key(
        0.0, "share β of an average of the models of all rounds, which is evaluated and saved; 0: off", ge=0, le=0.999
    )
    loss_metric: str = key(
        "", "metric that is a client's loss where it reports neither `train_loss` nor `loss`", max_length=200
    )
    max_empty_rounds: int = key(
        10, "rounds in a row without a usable update before the run stops; 0: never", ge=0, le=MILLION
    )


class Privacy(Group):
    """Differential privacy of the models."""

    privacy: Literal["none", "white", "banded"] = key(
        "none", "client-level differential privacy: `white` noise, or `banded` noise that cancels over rounds",
        see="[what is promised](privacy.md); `banded` needs `markov-optimal`, `systematic` or `oldest-age`",
    )  # fmt: skip
    clip: float = key(1.0, "largest norm of an update; a larger update is scaled down", gt=0, le=1e9)
    noise_multiplier: float = key(
        1.0, "noise over the sensitivity of all participations; `aoi privacy --epsilon E` finds it", gt=0, le=1e9
    )
    bands: int = key(0, "bands of banded noise; 0: as many as rounds between two participations", ge=0, le=MILLION)
    delta: float = key(1e-5, "δ of the ε in the ledger, below 1 / `num-clients`", gt=0, le=0.5)
    max_epsilon: float = key(0.0, "the run completes before ε exceeds it; 0: no bound", ge=0, le=1e9)


class Budget(Group):
    """The policies that select which clients refresh their data under a budget."""

    budget: float = key(40.0, "spending per round B", gt=0, le=1e12)
    total_budget: float = key(0.0, "spending of all rounds; 0: no limit", ge=0, le=1e18)
    index_source: Literal["server", "bid"] = key("server", "who computes the indices: the server, or each client")
    trains: Literal["selected", "all"] = key(
        "selected", "who trains: the refreshed clients, or all; the selected ones refresh first"
    )
    sensitivities: Literal["declared", "staleness", "bound", "estimated"] = key(
        "declared", "source of φ: the clients or their file, their staleness, eq. (10) of Xu et al., or their losses"
    )
    staleness_rates: Literal["equal", "own"] = key(
        "equal", "whether all clients' labels age alike, or each at its rate in column `staleness` of `clients-file`"
    )
    strict_budget: bool = key(False, "spend less than B, the paper's literal <")
    stop_at_first: bool = key(False, "stop at the first client that the rest of the budget cannot pay")
    ageing: Ageing = key("linear", "cost of an age for `wics`: `linear` as in the paper, `quadratic` or `root`")
    clients_file: str = key(
        "", "CSV file of clients: `name,size,payment,sensitivity,age,staleness`, or `rate` for `rates=given`",
        see="empty: clients are drawn as in Xu et al. 2024, Section 5",
    )  # fmt: skip


class Clock(Group):
    """Simulated time."""

    clock: str = key(
        "", "simulate time: `always`, `bernoulli:SHARE`, `generated` or a trace file; deadlines are then simulated",
        see="[how](clock.md); `aoi run --engine local` only",
    )  # fmt: skip
    clock_start: float = key(
        0.0, "second of the trace at which the run starts; -1: a whole hour drawn by `seed`", ge=-1, le=1e9
    )  # fmt: skip
    until: float = key(
        0.0, "simulated time after which no round starts: seconds, or 6h, 90min, 3d; 0: no limit", ge=0, le=1e9
    )

    @field_validator("until", mode="before")
    @classmethod
    def _with_a_unit(cls, value: object) -> object:
        return seconds(value) if isinstance(value, str) else value


class Output(Group):
    """Where results go."""

    run_name: str = key("", "name of the run; empty: made from policy, data set and time", pattern=NAME_PATTERN)
    runs_dir: str = key("runs", "folder of all runs")
    resume: bool = key(
        False, "continue the run of that name; keys of the task must be the same, the rest comes from its ledger"
    )
    track: str = key(
        "", "trackers to inform each round, separated by commas: `tensorboard`, `mlflow`, `wandb`",
        see="[trackers](own.md#tracking)",
    )  # fmt: skip
    log_format: Literal["text", "json"] = key("text", "form of the server's log on stderr")

    @field_validator("track")
    @classmethod
    def _known_trackers(cls, value: str) -> str:
        names = [name.strip() for name in value.split(",") if name.strip()]
        for i, name in enumerate(names):
            if name not in TRACKERS:
                raise ConfigError("track", name, tuple(TRACKERS), "Choose some of these, separated by commas.")
            if name in names[:i]:
                allowed = f"names that differ, and {name} is there twice"
                raise ConfigError("track", value, allowed, "Leave one of them out.")
        return ",".join(names)


GROUPS: tuple[type[Group], ...] = (Task, Training, Selection, Coordination, Round, Privacy, Budget, Clock, Output)
