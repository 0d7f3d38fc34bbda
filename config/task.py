"""The keys of a run's task in two groups: data and model, and a client's training.

Server and clients share them.
"""

from typing import Literal

from pydantic import field_validator

from aoi_fl.config.fields import Group, key
from aoi_fl.config.values import (
    MILLION,
)
from aoi_fl.science.names import is_well_formed

DATASETS = ("digits", "mnist", "fashion-mnist", "cifar10", "cifar100")
MODELS = ("lr", "svm", "2nn", "cnn")
OWN_DATA = ("csv:", "parquet:", "npz:")
"""Prefixes of your own data sets, before the file's path."""
OWN_MODEL = "python:MODULE:FUNCTION"
"""The name of your own model."""
CROP_FLIP, BFLOAT16 = "crop-flip", "bfloat16"


class TaskKeys(Group):
    """The data and the model."""

    dataset: str = key(
        "digits",
        "data set, or your own file",
        see="[how](own.md#data)",
        form=(*DATASETS, *(f"{kind}FILE" for kind in OWN_DATA)),
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
        "the clients' model",
        form=("auto", *MODELS, OWN_MODEL),
        see="`auto`: `2nn` for the digits and your own data, else `cnn`; `lr:zeros` and `svm:zeros` start at zero; "
        "[your own model](own.md#model)",
    )
    model_dir: str = key(".", "folder that is searched first for the module of your own model or policy")
    partition: str = key(
        "iid", "how examples are divided among clients", form="`iid`, or `dirichlet:ALPHA` with ALPHA from 0.001"
    )
    spare: int = key(0, "further shares of the examples, for clients that join a running cluster", ge=0, le=MILLION)
    client_column: str = key(
        "",
        "column, or array of `npz:FILE`, that names each row's client, in place of `partition`",
        max_length=200,
        see="`num-clients` is then the number of its values",
    )
    sizes: str = key("equal", "examples per client of an IID partition: `equal`, `zipf:A` or `uniform:LO:HI`")
    mislabel_rate: float = key(
        0.0,
        "share of a client's labels that become wrong per round of age, up to 0.9",
        ge=0,
        le=1,
        see="only policies with a `budget` refresh data; under other policies data only age",
    )
    staleness_rates: Literal["equal", "own"] = key(
        "equal", "`own` multiplies `mislabel-rate` by column `staleness` of `clients-file`"
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
        return float(self.partition.partition(":")[2] or 0.6)

    @field_validator("partition")
    @classmethod
    def _whole_partition(cls, value: str) -> str:
        kind, _, alpha = value.partition(":")
        if value == "iid":
            return value
        if kind != "dirichlet" or not 0.001 <= (share := float(alpha or 0.6)) <= MILLION:
            raise ValueError
        return f"{kind}:{share}"

    @field_validator("dataset")
    @classmethod
    def _known_dataset(cls, value: str) -> str:
        if value not in DATASETS and not value.startswith(OWN_DATA):
            raise ValueError
        return value

    @field_validator("model")
    @classmethod
    def _known_model(cls, value: str) -> str:
        if value not in ("auto", *MODELS, "lr:zeros", "svm:zeros") and not is_well_formed(value):
            raise ValueError
        return value


class TrainingKeys(Group):
    """How a client trains."""

    learning_rate: float = key(0.0, "step size; 0: the data set's own, 0.2 for the digits, else 0.1", ge=0, le=1000)
    learning_rate_decay: float = key(
        0.0, "factor of the step size per round; 0: the data set's own, 0.98 for the digits, else 0.998", ge=0, le=1
    )
    batch_size: int = key(0, "examples per step; 0: 10 for the digits, else 50", ge=0, le=MILLION)
    local_epochs: int = key(
        0, "passes of a client over its data per round; 0: 10 for the digits, else 5", ge=0, le=10**5
    )
    local_steps: int = key(0, "mini-batches τ of a client per round, in place of `local-epochs`", ge=0, le=10**7)
    augment: Literal["none", "crop-flip"] = key(
        "none", "`crop-flip` moves images by up to four pixels and flips them, anew in each pass"
    )
    device: Literal["auto", "cpu", "cuda"] = key("auto", "processor; `auto`: a GPU if there is one")
    precision: Literal["float32", "tf32", "bfloat16"] = key(
        "float32", "precision of the products of training; `tf32` needs a GPU"
    )
    threads: int = key(1, "torch threads of a process; the last bits of results depend on it", ge=1, le=1024)
    train_together: Literal["auto", "always", "never"] = key(
        "auto",
        "whether the clients of one process train at once; `auto`: on a GPU without `--workers`",
        see="with slightly different results, see below",
    )
