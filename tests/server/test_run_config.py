"""A configuration is checked whole before the first message, and every mistake says what to do."""

import tomllib
from pathlib import Path

import pytest

from aoi_fl.learning.settings import TaskSettings
from aoi_fl.science.errors import ConfigError
from aoi_fl.server.config import RunConfig
from aoi_fl.strategies.registry import POLICIES

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_the_defaults_are_those_that_flower_reads():
    listed = tomllib.loads(PYPROJECT.read_text())["tool"]["flwr"]["app"]["config"]
    own = RunConfig().flat()
    assert own == listed
    assert {k: type(v) for k, v in own.items()} == {k: type(v) for k, v in listed.items()}


def test_a_configuration_survives_the_way_through_flower_and_the_command_line():
    config = RunConfig.parse({"policy": "random", "learning-rate": 0.25, "deterministic": False, "num-clients": 30})
    assert RunConfig.parse(config.flat()) == config
    assert RunConfig.parse({k: str(v) for k, v in config.flat().items()}) == config
    assert all(type(v) in (bool, int, float, str) for v in config.flat().values())


def test_text_from_the_command_line_becomes_numbers():
    config = RunConfig.parse(
        {"num-clients": "40", "partition": "dirichlet", "alpha": "0.3", "deterministic": "false", "seed": "9"}
    )
    assert (config.num_clients, config.alpha, config.deterministic, config.seed) == (40, 0.3, False, 9)


def test_auto_and_zero_are_the_data_sets_own():
    digits, mnist = RunConfig.parse({}), RunConfig.parse({"dataset": "mnist", "batch-size": 20})
    assert (digits.model, digits.learning_rate, digits.batch_size, digits.local_epochs) == ("2nn", 0.2, 10, 10)
    assert (mnist.model, mnist.learning_rate, mnist.batch_size) == ("cnn", 0.1, 20)
    assert mnist.rate(1) == 0.1 and mnist.rate(3) == pytest.approx(0.1 * 0.998**2)
    assert digits.rate(9) == pytest.approx(0.2 * 0.98**8)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"policy": "fairest"}, ["policy is 'fairest'", *POLICIES, "-c policy="]),
        (
            {"policy": "random", "wire": "reserve"},
            ["wire is reserve", "random does not use it", "markov-optimal", "systematic"],
        ),
        ({"policy": "wics", "jitter": 0.2}, ["jitter is 0.2", "wics does not use it", "systematic"]),
        ({"policy": "systematic", "max-age": 3}, ["max-age is 3", "systematic does not use it"]),
        ({"policy": "abs", "ageing": "root"}, ["ageing is root", "abs does not use it", "wics"]),
        ({"clock": "always", "foresight": True}, ["foresight is true", "does not use it", "oort, fedcs, refl"]),
        ({"policy": "random", "rates": "size"}, ["rates is size", "random does not use it"]),
        ({"alpha": 0.3}, ["alpha is 0.3", "partition is iid", "set partition to dirichlet"]),
        ({"mislabel-rate": 0.1}, ["mislabel-rate is 0.1", "staleness is none", "set staleness to mislabelled"]),
        ({"staleness": "mislabelled", "stream-window": 9}, ["stream-window is 9", "set staleness to stream"]),
        ({"discount": 0.5}, ["discount is 0.5", "staleness is none", "set staleness to mislabelled or stream"]),
        ({"discount": 0.5, "staleness": "stream"}, ["discount is 0.5", "policy markov-optimal refreshes nobody"]),
        ({"discount": 0.5, "policy": "wics"}, ["discount is 0.5", "staleness is none"]),
        (
            {"policy": "pow-d", "clients-per-round": 10, "over-selection": 2, "candidates": 15},
            ["candidates is 15", "clients-per-round times over-selection, 20,"],
        ),
        ({"policy": "pow-d", "candidates": 14}, ["candidates is 14", "give clients-per-round, 15,"]),
        ({"policy": "wics", "sizes": "zipf:1.2"}, ["sizes is zipf:1.2", "policy wics", "clients-file"]),
        ({"policy": "maxpack", "partition": "dirichlet"}, ["partition is dirichlet", "policy maxpack", "leave it out"]),
        ({"policy": "systematic", "rates": "given"}, ["rates is given", "clients-file", "go together"]),
        ({"clients-file": "c.csv"}, ["rates is equal", "clients-file is 'c.csv'"]),
        ({"adaptive-dropout": True, "absence": "learned"}, ["absence is learned", "adaptive-dropout is true"]),
        ({"weights": "heavy"}, ["weights is 'heavy'", "'unbiased'"]),
        ({"policy": "oort", "weights": "unbiased"}, ["weights is unbiased", "policy oort nobody knows", "oldest-age"]),
        ({"policy": "proportional", "weights": "unbiased"}, ["weights is unbiased", "are so already", "leave it out"]),
        ({"jitter": 1.5}, ["jitter is 1.5"]),
        ({"dataset": "cifar"}, ["dataset is 'cifar'", "digits", "cifar100", "npz:PATH", "-c dataset="]),
        ({"polcy": "random"}, ["polcy is no run key", "policy", "num-server-rounds"]),
        ({"wire": "pigeon"}, ["wire is 'pigeon'", "poll", "broadcast", "reserve"]),
        ({"model": "vgg"}, ["model is 'vgg'", "lr", "cnn", "python:MODULE:FUNCTION"]),
        ({"partition": "sorted"}, ["partition is 'sorted'", "'iid'", "'dirichlet'"]),
        ({"device": "tpu"}, ["device is 'tpu'", "'cuda'"]),
        ({"clients-per-round": 16, "num-clients": 15}, ["clients-per-round is 16", "num-clients, 15", "lower"]),
        ({"clients-per-round": -1}, ["clients-per-round is -1", "greater than or equal to 1"]),
        ({"clients-per-round": 0}, ["clients-per-round is 0"]),
        ({"num-clients": 0}, ["num-clients is 0"]),
        ({"num-clients": "many"}, ["num-clients is 'many'", "integer"]),
        ({"num-clients": 2.5}, ["num-clients is 2.5"]),
        ({"max-age": -1}, ["max-age is -1", "greater than or equal to 0"]),
        ({"num-server-rounds": 0}, ["num-server-rounds is 0"]),
        ({"alpha": 0}, ["alpha is 0", "greater than or equal to 0.001", "-c alpha="]),
        ({"alpha": -0.5}, ["alpha is -0.5"]),
        ({"alpha": float("nan")}, ["alpha is nan"]),
        ({"exponent": float("inf")}, ["exponent is inf", "less than or equal to 20"]),
        ({"learning-rate": -0.1}, ["learning-rate is -0.1"]),
        ({"learning-rate": float("nan")}, ["learning-rate is nan"]),
        ({"learning-rate-decay": 1.5}, ["learning-rate-decay is 1.5"]),
        ({"batch-size": -1}, ["batch-size is -1"]),
        ({"seed": -1}, ["seed is -1"]),
        ({"seed": 2**63}, ["seed is 9223372036854775808"]),
        ({"run-name": "../up"}, ["run-name is '../up'", "letters, digits", "at most 100"]),
        ({"run-name": ".hidden"}, ["run-name is '.hidden'"]),
        ({"run-name": "x" * 101}, ["run-name is 'xxx"]),
        ({"join-timeout": 0}, ["join-timeout is 0", "greater than 0"]),
        ({"train-timeout": float("inf")}, ["train-timeout is inf"]),
        ({"budget": 0}, ["budget is 0"]),
        ({"deterministic": "perhaps"}, ["deterministic is 'perhaps'"]),
        ({"resume": True}, ["resume", "run-name"]),
        ({"max-age": -1, "alpha": 0, "colour": "red"}, ["max-age is -1", "alpha is 0", "colour is no run key"]),
    ],
)
def test_a_mistake_names_the_key_the_value_what_is_allowed_and_what_to_do(values, words):
    with pytest.raises(ConfigError) as error:
        RunConfig.parse(values)
    text = str(error.value)
    assert "\n" not in text and "pydantic" not in text and text.endswith(".")
    assert all(word in text for word in words), text


def test_clients_read_the_task_out_of_the_run_and_ignore_the_rest():
    config = RunConfig.parse({"dataset": "mnist", "model": "lr", "policy": "oldest-age"})
    task = TaskSettings.model_validate(config.flat())
    assert (task.dataset, task.model, task.batch_size) == ("mnist", "lr", config.batch_size)


def test_weights_that_are_a_policys_own_may_be_named():
    keys = {"policy": "f3ast", "over-selection": 1.3}
    assert RunConfig.parse(keys | {"weights": "unbiased"}).over_selection == RunConfig.parse(keys).over_selection
    with pytest.raises(ConfigError, match="who is fast would count too much"):
        RunConfig.parse({"policy": "markov-optimal", "over-selection": 1.3, "weights": "unbiased"})
