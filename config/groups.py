"""The keys of a run in eight groups. A key is one field: default, range and help stand here and nowhere else."""

import math
from typing import Literal

from pydantic import field_validator

from aoi_fl.config.fields import NAME_PATTERN, Group, key, seconds
from aoi_fl.config.policies import OWN, POLICIES, is_policy
from aoi_fl.config.values import (
    COMPUTING,
    DISCOUNT,
    MILLION,
    SPARE,
    UNPACKED,
    Compensate,
    budgets,
    device_of,
    joined,
    local_work,
    number,
    parts_of,
    phases_of,
    smoothing,
    threads_of,
)
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import Ageing, RateRule, is_well_formed

DATASETS = ("digits", "mnist", "fashion-mnist", "cifar10", "cifar100")
MODELS = ("lr", "svm", "2nn", "cnn")
OWN_DATA = ("csv:", "parquet:", "npz:")
"""How a data set of your own begins; its file follows."""
OWN_MODEL = "python:MODULE:FUNCTION"
"""How a model of your own is named."""
CROP_FLIP, BFLOAT16 = "crop-flip", "bfloat16"
TRACKERS = {"tensorboard": "TensorBoard", "mlflow": "MLflow", "wandb": "Weights & Biases"}
"""What ``track`` may name, and the tools' own names."""


class Task(Group):
    """What is learnt, and from which data."""

    dataset: str = key(
        "digits", "data set: `digits`, `mnist`, `fashion-mnist`, `cifar10`, `cifar100`, or your own file",
        see="your own: `csv:FILE`, `parquet:FILE` or `npz:FILE` ([how](own.md#data))",
    )  # fmt: skip
    target: str = key("", "column to predict, of `dataset=csv:FILE` or `parquet:FILE`", max_length=200)
    data_dir: str = key("data", "folder of the data sets; missing ones are downloaded to it")
    model: str = key(
        "auto", "model: `lr`, `svm`, `2nn`, `cnn` or `python:MODULE:FUNCTION`",
        see="`auto`: `2nn` for the digits and your own data, else `cnn`; `lr:zeros` and `svm:zeros` start at zero; "
        "[your own model](own.md#model)",
    )  # fmt: skip
    model_dir: str = key(".", "folder that is searched first for the module of your own model or policy")
    partition: str = key(
        "iid", "how examples are divided among clients", form="`iid`, `dirichlet:ALPHA` or `column:NAME`",
        see="`+spare:N` after one of the first two deals N shares more, for clients that join a running cluster; "
        "`column:NAME`: by a column, or array of `npz:FILE`, that names each row's client; `num-clients` is then "
        "the number of its values",
    )  # fmt: skip
    sizes: str = key("equal", "examples per client of an IID partition: `equal`, `zipf:A` or `uniform:LO:HI`")
    staleness: str = key(
        "none", "what age does to data: a share RATE of the labels becomes wrong per round of age, CAP at most",
        form="`none` or `mislabelled:RATE:CAP`",
        see="`mislabelled:RATE:CAP:own` multiplies RATE by column `staleness` of `clients-file`; only `wics`, `abs`, "
        "`maxpack` and `random-budget` refresh data; under other policies data only age. `+discount:γ` keeps replaced "
        "data with the weight γ per round of age (Xu et al. 2024, Section 7)",
    )  # fmt: skip
    seed: int = key(1, "seed of every draw", ge=0, lt=2**63)

    @property
    def architecture(self) -> str:
        """The model without ``:zeros``."""
        return self.model.removesuffix(":zeros")

    @property
    def zeros(self) -> bool:
        """Whether the model starts at zero."""
        return self.model.endswith(":zeros")

    @property
    def alpha(self) -> float:
        """The concentration of a Dirichlet partition."""
        return float(self._split[1]) if self._split[0] == "dirichlet" else 0.6

    @property
    def client(self) -> str:
        """The column that names each row's client; empty if there is none."""
        return self._split[1] if self._split[0] == "column" else ""

    @property
    def split(self) -> str:
        """The kind of the partition: iid, dirichlet or column."""
        return self._split[0]

    @property
    def spare_shares(self) -> int:
        """Shares of the data beyond ``num-clients``, for clients that join a running cluster."""
        return self._split[2]

    @property
    def _split(self) -> tuple[str, str, int]:
        if self.partition.startswith("column:"):
            return "column", self.partition[7:], 0
        text, _, spare = self.partition.partition("+spare:")
        kind, _, argument = text.partition(":")
        return kind, argument, int(spare or 0)

    @property
    def mislabelled(self) -> tuple[float, float, bool] | None:
        """Rate and cap of labels that become wrong, and whether clients have rates of their own; None: they don't."""
        if self.staleness == "none":
            return None
        _, rate, cap, *own = self.staleness.partition("+")[0].split(":")
        return float(rate), float(cap), bool(own)

    @property
    def discount(self) -> float:
        """The weight of replaced data per round of age; 0: replaced data are not used."""
        return float(self.staleness.partition("+discount:")[2] or 0)

    @field_validator("partition")
    @classmethod
    def _whole_partition(cls, value: str) -> str:
        form = ("iid", "dirichlet:ALPHA", "column:NAME", "iid+spare:N", "dirichlet:ALPHA+spare:N")
        if value.startswith("column:") and 7 < len(value) <= 207:
            return value
        head, *words = value.split("+")
        kind, _, text = head.partition(":")
        if kind == "dirichlet":
            head = f"dirichlet:{number('partition', value, text or '0.6', 0.001, MILLION)}"
        elif head != "iid":
            raise ConfigError("partition", value, form, "Choose one of these.")
        parts = parts_of("partition", value, words, SPARE, form)
        return joined(head, {name: count for name, count in parts.items() if count}, SPARE)

    @field_validator("staleness")
    @classmethod
    def _whole_staleness(cls, value: str) -> str:
        head, *words = value.split("+")
        kind, *parts = head.split(":")
        own = parts.pop() if len(parts) == 3 else ""
        form = ("none", "mislabelled:RATE:CAP", "mislabelled:RATE:CAP+discount:γ")
        if value != "none" and (kind != "mislabelled" or own not in ("", "own") or len(parts) > 2):
            raise ConfigError("staleness", value, form, "Choose one of these.")
        if value == "none":
            return value
        kept = {name: share for name, share in parts_of("staleness", value, words, DISCOUNT, form).items() if share}
        rate, cap = parts + ["0.05", "0.9"][len(parts) :]
        shares = ":".join(str(number("staleness", value, share, 0, 1)) for share in (rate, cap))
        return joined(f"mislabelled:{shares}{':own' * bool(own)}", kept, DISCOUNT)

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
        if value not in ("auto", *MODELS, "lr:zeros", "svm:zeros") and not is_well_formed(value):
            raise ConfigError("model", value, ("auto", *MODELS, OWN_MODEL), "Choose one of these.")
        return value


class Training(Group):
    """How a client trains."""

    learning_rate: str = key(
        "auto", "step size, and the factor by which it decays each round; `auto`: the data set's own",
        form="`auto`, `RATE` or `RATE:DECAY`", see="0.2:0.98 for the digits, else 0.1:0.998",
    )  # fmt: skip
    batch_size: int = key(0, "examples per step; 0: 10 for the digits, else 50", ge=0, le=MILLION)
    local_work: str = key(
        "auto", "work of a client per round: passes over its data, or mini-batches τ; `auto`: the data set's own",
        form="`auto`, `epochs:N` or `steps:N`", see="10 epochs for the digits, else 5",
    )  # fmt: skip
    augment: Literal["none", "crop-flip"] = key(
        "none", "`crop-flip` moves images by up to four pixels and flips them, anew in each pass"
    )
    device: str = key(
        "auto", "where and how to compute; `auto`: a GPU if there is one, with float32 and one thread",
        form="`auto`, `cpu` or `cuda`, with `+tf32` or `+bfloat16`, `+threads:N`, `+together` or `+alone`",
        see="`+tf32` needs a GPU; the last bits of results differ by the number of threads; `+together` trains the "
        "clients of one process in one program, as a GPU without `--workers` does by default, and results differ a "
        "little, see below; `+alone` never does",
    )  # fmt: skip

    @property
    def processor(self) -> str:
        """Where to compute: auto, cpu or cuda."""
        return device_of(self.device)[0]

    @property
    def precision(self) -> str:
        """The precision of the products of training: float32, tf32 or bfloat16."""
        parts = device_of(self.device)[1]
        return next((kind for kind in ("tf32", "bfloat16") if kind in parts), "float32")

    @property
    def threads(self) -> int:
        """The number of torch threads."""
        return threads_of(self.device)

    @property
    def train_together(self) -> str:
        """Whether the clients of one process train in one program: always, never, or auto."""
        parts = device_of(self.device)[1]
        return "always" if "together" in parts else "never" if "alone" in parts else "auto"

    @field_validator("device")
    @classmethod
    def _whole_device(cls, value: str) -> str:
        head, parts = device_of(value)
        return joined(
            head, {name: count for name, count in parts.items() if (name, count) != ("threads", 1)}, COMPUTING
        )

    @property
    def step_size(self) -> float:
        """The learning rate of round 1; 0 before it is resolved."""
        return float(self.learning_rate.partition(":")[0].replace("auto", "0"))

    @property
    def decay(self) -> float:
        """The factor of the learning rate per round; 0 before it is resolved."""
        return float(self.learning_rate.partition(":")[2] or 0)

    @property
    def local_epochs(self) -> int:
        """Passes over a client's data per round; 0 where steps count."""
        return local_work(self.local_work)[0]

    @property
    def local_steps(self) -> int:
        """Mini-batches of a client per round; 0 where passes count."""
        return local_work(self.local_work)[1]

    @field_validator("learning_rate", mode="before")
    @classmethod
    def _whole_rate(cls, value: object) -> str:
        rate, colon, decay = str(value).partition(":")
        size = "auto" if rate in ("auto", "0", "0.0") else str(number("learning-rate", value, rate, 0, 1000))
        factor = number("learning-rate", value, decay, 0, 1) if colon else 0
        return f"{size}:{factor}" if factor else size

    @field_validator("local_work")
    @classmethod
    def _whole_work(cls, value: str) -> str:
        epochs, steps = local_work(value)
        return f"steps:{steps}" if steps else f"epochs:{epochs}" if epochs else "auto"


class Selection(Group):
    """Which clients take part, how they decide, and with what weight."""

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
        see="not with `rates` or `compensate=availability`, where each client's table has its own length",
    )  # fmt: skip
    exponent: float = key(1.0, "α of `markov-increasing`, p_a = 1 − exp(−s(a+1)^α)", gt=0, le=20)
    rates: RateRule = key(
        "equal", "each client's share of the rounds: `equal`, by `size`, or `given` by column `rate` of `clients-file`",
        see="the rates of all clients sum to k",
    )  # fmt: skip
    phases: str = key(
        "spread", "phases of `systematic`: `spread` gives exactly k per round with equal rates",
        form="`spread` or `random`",
        see="`spread:JITTER` delays each participation by up to that share of the client's stride",
    )  # fmt: skip
    candidates: int = key(
        0, "clients that `pow-d`, `rpow-d` and `fedcs` draw first; 0: twice as many as they select", ge=0, le=MILLION
    )
    weights: Literal["auto", "equal", "size", "unbiased"] = key(
        "auto", "aggregation weights ω; `auto`: the policy's own; `unbiased`: q/r, where the rates r are known"
    )
    compensate: Compensate = key(
        "none", "estimate how often updates are lost (`dropout`), or when clients are available, and correct for it",
        see="[dropout](results/dropout.md); `availability` sends rates or tables for each client",
    )  # fmt: skip
    foresight: bool = key(
        False, "tell policies of simulated time when devices are available and how fast they are",
        see="no real server knows this; the policies' papers assume it",
    )  # fmt: skip

    coordination: Literal["auto", "poll", "broadcast", "reserve"] = key(
        "auto", "how clients decide: `poll` asks all, `broadcast` sends all the model, `reserve` announces next rounds",
        see="`systematic` needs the fewest messages with `reserve`",
    )  # fmt: skip

    @property
    def jitter(self) -> float:
        """The largest delay of a systematic client, as a share of its stride."""
        return phases_of(self.phases)[1]

    @field_validator("phases")
    @classmethod
    def _whole_phases(cls, value: str) -> str:
        rule, jitter = phases_of(value)
        return f"{rule}:{jitter}" if jitter else rule

    @field_validator("policy")
    @classmethod
    def _known_policy(cls, value: str) -> str:
        if not is_policy(value):
            raise ConfigError("policy", value, (*POLICIES, OWN), "Choose one of these.")
        return value


class Round(Group):
    """How a round runs."""

    num_server_rounds: int = key(30, "number of rounds", ge=1, le=MILLION, short="rounds")
    evaluate_every: int = key(1, "rounds between two tests of the model on the server", ge=1, le=MILLION)
    evaluate_clients: int = key(
        0, "clients that evaluate the new model each round on their own data", ge=0, le=MILLION,
        see="with `coordination=poll` their reply also has their decision on the next round",
    )  # fmt: skip
    join_timeout: float = key(60.0, "seconds to wait for clients to connect", gt=0, le=MILLION)
    ask_timeout: float = key(60.0, "seconds to wait for answers to questions", gt=0, le=MILLION)
    train_timeout: float = key(
        600.0,
        "seconds to wait for updates",
        gt=0,
        le=MILLION,
        short="deadline",
        see="evaluations have as long, and ten minutes at least",
    )
    round_seconds: float = key(
        0.0, "shortest time from one round's start to the next in seconds, where clients decide", ge=0, le=MILLION
    )
    compression: str = key(
        "none", "how updates travel: `float16` halves the bytes, `int8` quarters them, with error feedback",
        form="`none`, `float16` or `int8`, with `+unpacked`",
        see="cost in accuracy on [digits](results/compression.md) and [MNIST](results/compression-mnist.md); over a "
        "network a model travels as one object, and with `+unpacked` each array by itself, as to a client with another "
        "ClientApp",
    )  # fmt: skip
    over_selection: float = key(
        1.0, "factor by which more clients receive the model than updates are awaited", ge=1, le=100
    )
    late_rounds: int = key(
        0, "rounds that an update may be late and still count, for [less](selectors.md)", ge=0, le=1000
    )
    smoothing: str = key(
        "none", "of the server's model: `momentum:β` of its step, `average:β` of the models of all rounds, or both",
        form="`none`, `momentum:β`, `average:β` or `momentum:β+average:β`",
        see="the average is evaluated and saved; a tested setting is `momentum:0.5+average:0.8`",
    )  # fmt: skip
    loss_metric: str = key(
        "", "metric that is a client's loss where it reports neither `train_loss` nor `loss`", max_length=200
    )
    max_empty_rounds: int = key(
        10, "rounds in a row without a usable update before the run stops; 0: never", ge=0, le=MILLION
    )

    @property
    def coding(self) -> str:
        """How updates travel: none, float16 or int8."""
        return self.compression.partition("+")[0]

    @property
    def packing(self) -> str:
        """Whether a model travels as one object over a network: auto or none."""
        return "none" if "+" in self.compression else "auto"

    @field_validator("compression")
    @classmethod
    def _known_compression(cls, value: str) -> str:
        head, *words = value.split("+")
        form = ("none", "float16", "int8", "none+unpacked", "float16+unpacked", "int8+unpacked")
        if head not in form:
            raise ConfigError("compression", value, form, "Choose one of these.")
        return joined(head, parts_of("compression", value, words, UNPACKED, form), UNPACKED)

    @property
    def server_momentum(self) -> float:
        """The momentum of the server's step, Flower's FedAvgM with step length 1; 0: the weighted mean."""
        return smoothing(self.smoothing).get("momentum", 0.0)

    @property
    def serve_average(self) -> float:
        """The share of an average of all rounds' models, which is evaluated and saved; 0: off."""
        return smoothing(self.smoothing).get("average", 0.0)

    @field_validator("smoothing")
    @classmethod
    def _whole_smoothing(cls, value: str) -> str:
        return "+".join(f"{kind}:{share}" for kind, share in smoothing(value).items() if share) or "none"


class Privacy(Group):
    """Differential privacy of the models."""

    privacy: str = key(
        "none", "client-level differential privacy: `white` noise, or `banded` noise that cancels over rounds",
        form="`none`, `white`, `banded` or `banded:BANDS`",
        see="by default as many bands as rounds between two participations; [what is promised](privacy.md); `banded` "
        "needs `markov-optimal`, `systematic` or `oldest-age`",
    )  # fmt: skip
    clip: float = key(1.0, "largest norm of an update; a larger update is scaled down", gt=0, le=1e9)
    noise_multiplier: float = key(
        1.0, "noise over the sensitivity of all participations; `aoi privacy --epsilon E` finds it", gt=0, le=1e9
    )
    delta: float = key(1e-5, "δ of the ε in the ledger, below 1 / `num-clients`", gt=0, le=0.5)
    max_epsilon: float = key(0.0, "the run completes before ε exceeds it; 0: no bound", ge=0, le=1e9)

    @property
    def bands(self) -> int:
        """The bands of banded noise; 0: as many as rounds between two participations."""
        return int(self.privacy.partition(":")[2] or 0)

    @property
    def noise(self) -> str:
        """The kind of noise: none, white or banded."""
        return self.privacy.partition(":")[0]

    @field_validator("privacy")
    @classmethod
    def _whole_privacy(cls, value: str) -> str:
        kind, colon, bands = value.partition(":")
        if kind not in ("none", "white", "banded") or (colon and kind != "banded"):
            raise ConfigError("privacy", value, ("none", "white", "banded", "banded:BANDS"), "Choose one of these.")
        return f"banded:{int(number('privacy', value, bands, 1, MILLION, whole=True))}" if colon else value


class Budget(Group):
    """The policies that select which clients refresh their data under a budget."""

    budget: str = key("40.0", "spending per round B, and of all rounds TOTAL", form="`B` or `B:TOTAL`")
    index_source: Literal["server", "bid"] = key(
        "server", "computation of the indices: by the server, or by each client"
    )
    trains: Literal["selected", "all"] = key(
        "selected", "clients that train: the refreshed ones, or all; the selected ones refresh first"
    )
    sensitivities: Literal["declared", "staleness", "bound", "estimated"] = key(
        "declared", "source of φ: the clients or their file, their staleness, eq. (10) of Xu et al., or their losses"
    )
    budget_rule: Literal["skip", "stop", "strict"] = key(
        "skip", "at a client that the rest of the budget cannot pay: `skip` it, or `stop`; `strict` spends less than B",
        see="`strict` is the paper's literal <",
    )  # fmt: skip
    ageing: Ageing = key("linear", "cost of an age for `wics`: `linear` as in the paper, `quadratic` or `root`")
    clients_file: str = key(
        "", "CSV file of clients: `name,size,payment,sensitivity,age,staleness`, or `rate` for `rates=given`",
        see="empty: clients are drawn as in Xu et al. 2024, Section 5",
    )  # fmt: skip

    @property
    def round_budget(self) -> float:
        """The spending per round."""
        return budgets(self.budget)[0]

    @property
    def total_budget(self) -> float:
        """The spending of all rounds; infinity is no limit."""
        return budgets(self.budget)[1]

    @field_validator("budget", mode="before")
    @classmethod
    def _whole_budget(cls, value: object) -> str:
        each, total = budgets(str(value))
        return f"{each}:{total}" if math.isfinite(total) else str(each)


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


GROUPS: tuple[type[Group], ...] = (Task, Training, Selection, Round, Privacy, Budget, Clock, Output)
