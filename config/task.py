"""The keys of a run's task in two groups: data and model, and a client's training.

Server and clients share them.
"""

from typing import Literal

from pydantic import field_validator

from aoi_fl.config.fields import Group, key
from aoi_fl.config.values import (
    COMPUTING,
    DISCOUNT,
    MILLION,
    SPARE,
    device_of,
    joined,
    local_work,
    number,
    parts_of,
    threads_of,
)
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import is_well_formed

DATASETS = ("digits", "mnist", "fashion-mnist", "cifar10", "cifar100")
MODELS = ("lr", "svm", "2nn", "cnn")
OWN_DATA = ("csv:", "parquet:", "npz:")
"""Prefixes of your own data sets, before the file's path."""
OWN_MODEL = "python:MODULE:FUNCTION"
"""The name of your own model."""
CROP_FLIP, BFLOAT16 = "crop-flip", "bfloat16"


class Task(Group):
    """The data and the model."""

    dataset: str = key(
        "digits",
        "data set: `digits`, `mnist`, `fashion-mnist`, `cifar10`, `cifar100`, or your own file",
        see="your own: `csv:FILE`, `parquet:FILE` or `npz:FILE` ([how](own.md#data))",
    )
    target: str = key("", "column to predict, of `dataset=csv:FILE` or `parquet:FILE`", max_length=200)
    drop: str = key("", "columns of your own CSV or Parquet file to leave out, separated by commas", max_length=2000)
    missing: Literal["none", "median"] = key(
        "none",
        "missing cells of your own CSV or Parquet file: refused, or the column's `median`; a missing word is a word",
    )
    data_dir: str = key("data", "folder of the data sets; missing ones are downloaded to it")
    model: str = key(
        "auto",
        "model: `lr`, `svm`, `2nn`, `cnn` or `python:MODULE:FUNCTION`",
        see="`auto`: `2nn` for the digits and your own data, else `cnn`; `lr:zeros` and `svm:zeros` start at zero; "
        "[your own model](own.md#model)",
    )
    model_dir: str = key(".", "folder that is searched first for the module of your own model or policy")
    partition: str = key(
        "iid",
        "how examples are divided among clients",
        form="`iid`, `dirichlet:ALPHA` or `column:NAME`",
        see="`+spare:N` after one of the first two deals N shares more, for clients that join a running cluster; "
        "`column:NAME`: by a column, or array of `npz:FILE`, that names each row's client; `num-clients` is then "
        "the number of its values",
    )
    sizes: str = key("equal", "examples per client of an IID partition: `equal`, `zipf:A` or `uniform:LO:HI`")
    staleness: str = key(
        "none",
        "effect of age on data: a share RATE of the labels becomes wrong per round of age, CAP at most",
        form="`none` or `mislabelled:RATE:CAP`",
        see="`mislabelled:RATE:CAP:own` multiplies RATE by column `staleness` of `clients-file`; only policies "
        "with a `budget` refresh data; under other policies data only age. `+discount:γ` keeps replaced "
        "data with the weight γ per round of age (Xu et al. 2024, Section 7)",
    )
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
        """Rate and cap of wrong labels, and whether clients have their own rates; None: no staleness."""
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
        "auto",
        "step size, and the factor by which it decays each round; `auto`: the data set's own",
        form="`auto`, `RATE` or `RATE:DECAY`",
        see="0.2:0.98 for the digits, else 0.1:0.998",
    )
    batch_size: int = key(0, "examples per step; 0: 10 for the digits, else 50", ge=0, le=MILLION)
    local_work: str = key(
        "auto",
        "work of a client per round: passes over its data, or mini-batches τ; `auto`: the data set's own",
        form="`auto`, `epochs:N` or `steps:N`",
        see="10 epochs for the digits, else 5",
    )
    augment: Literal["none", "crop-flip"] = key(
        "none", "`crop-flip` moves images by up to four pixels and flips them, anew in each pass"
    )
    device: str = key(
        "auto",
        "processor, precision and threads; `auto`: a GPU if there is one, with float32 and one thread",
        form="`auto`, `cpu` or `cuda`, with `+tf32` or `+bfloat16`, `+threads:N`, `+together` or `+alone`",
        see="`+tf32` needs a GPU; the last bits of results depend on the number of threads; `+together` trains the "
        "clients of one process at once, as a GPU without `--workers` does by default, with slightly different "
        "results, see below; `+alone` trains them one by one",
    )

    @property
    def processor(self) -> str:
        """The processor: auto, cpu or cuda."""
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
        """Whether the clients of one process train at once: always, never, or auto."""
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
