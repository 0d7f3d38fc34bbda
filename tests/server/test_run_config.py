"""A configuration is checked whole before the first message, and every mistake says what to do."""

from contextlib import nullcontext

import pytest

from aoi_fl.cli.keys import pairs
from aoi_fl.config.run import RunConfig
from aoi_fl.science.errors import ConfigErrors
from aoi_fl.server.app import prepare
from tests.refusals import refused


def test_a_configuration_survives_flower_and_the_command_line():
    values = {"policy": "random", "learning-rate": 0.25, "partition": "dirichlet:0.3", "num-clients": 30}
    config = RunConfig.parse(values)
    assert RunConfig.parse(config.flat()) == config and config.alpha == 0.3
    assert RunConfig.parse({k: str(v) for k, v in config.flat().items()}) == config
    assert all(type(v) in (bool, int, float, str) for v in config.flat().values())


def test_auto_and_zero_are_the_data_sets_own():
    digits, mnist = RunConfig.parse({}), RunConfig.parse({"dataset": "mnist", "batch-size": 20})
    assert (digits.model, digits.learning_rate, digits.batch_size, digits.local_epochs) == ("2nn", 0.2, 10, 10)
    assert (mnist.model, mnist.learning_rate, mnist.batch_size) == ("cnn", 0.1, 20)
    assert mnist.rate(1) == 0.1 and mnist.rate(3) == pytest.approx(0.1 * 0.998**2)
    assert digits.rate(9) == pytest.approx(0.2 * 0.98**8)
    assert RunConfig.parse({"local-steps": 7}).local_epochs == 0


@pytest.mark.parametrize(
    ("line", "key", "allowed"),
    [
        ("policy=fairest", "policy", "random"),
        ("policy=random coordination=reserve", "coordination", "left out"),
        ("until=5", "until", "left out"),
        ("num-clients=30 clients-per-round=8 over-selection=3.8", "over-selection", "smaller"),
        ("policy=wics spare=2", "spare", "a budget"),
        ("alpha=0.3", "alpha", "run key"),
        ("polcy=random", "polcy", "run key"),
        ("rounds=4", "rounds", "run key"),
        ("local-epochs=2 local-steps=3", "local-steps", "local-epochs"),
        (
            "policy=pow-d clients-per-round=10 over-selection=2 candidates=15",
            "candidates",
            "from clients-per-round times over-selection, 20, to num-clients, 100",
        ),
        ("policy=wics sizes=zipf:1.2", "sizes", "clients-file"),
        ("policy=systematic rates=given", "rates", "clients-file"),
        ("clients-file=c.csv", "rates", "clients-file"),
        ("policy=oort weights=unbiased", "weights", "rates are unknown"),
        ("policy=systematic compensate=dropout", "compensate", "availability"),
        ("dataset=cifar", "dataset", "cifar100"),
        ("model=vgg", "model", "cnn"),
        ("partition=sorted", "partition", "iid"),
        ("partition=dirichlet:0", "partition", "from 0.001"),
        ("device=tpu", "device", "cuda"),
        ("clients-per-round=16 num-clients=15", "clients-per-round", "at most num-clients, 15"),
        ("num-clients=many", "num-clients", "whole number from 1"),
        ("exponent=inf", "exponent", "above 0 and at most 20"),
        ("seed=9223372036854775808", "seed", "9223372036854775807"),
        ("run-name=../up", "run-name", "at most 100 letters"),
        ("resume=perhaps", "resume", "true or false"),
        ("resume=true", "run-name", "resume=true"),
        ("runs-dir=a\0b", "runs-dir", "NUL"),
        ("runs-dir=a\udcff", "runs-dir", "UTF-8"),
    ],
)
def test_every_refusal_has_four_fields(line, key, allowed):
    with refused(key, allowed=allowed) as error:
        RunConfig.parse(pairs(line.split()))
    text = str(error.value)
    assert error.value.remedy.endswith((".", "?")) and text.endswith(error.value.remedy)
    assert "\n" not in text and "pydantic" not in text


def test_every_wrong_key_is_named():
    with pytest.raises(ConfigErrors) as errors:
        RunConfig.parse({"max-age": -1, "device": "tpu", "colour": "red"})
    found = {error.key: error.value for error in errors.value.errors}
    assert found == {"max-age": -1, "device": "tpu", "colour": None}
    assert all(str(error) in str(errors.value) for error in errors.value.errors)


def test_presets_set_what_is_left_to_them():
    keys = {"policy": "systematic", "num-clients": 10}
    papers, ours = (RunConfig.parse(keys | {"preset": preset}) for preset in ("papers", "recommended"))
    assert (papers.coordination, papers.weights, papers.clients_per_round) == ("poll", "auto", 2)
    assert (ours.coordination, ours.weights, ours.clients_per_round) == ("reserve", "size", 2)
    assert RunConfig.parse(ours.flat()) == ours and RunConfig.parse(keys) == papers
    own = RunConfig.parse(keys | {"preset": "recommended", "coordination": "poll", "weights": "equal"})
    assert (own.coordination, own.weights) == ("poll", "equal")


@pytest.mark.parametrize("line", ["policy=random", "policy=wics", "rates=size", "privacy=banded max-age=30 delta=1e-3"])
def test_a_preset_leaves_weights_that_have_a_reason(line):
    assert RunConfig.parse(pairs(line.split()) | {"preset": "recommended"}).weights == "auto"


def test_weights_that_are_a_policys_own_may_be_named():
    keys = {"policy": "f3ast", "over-selection": 1.3}
    assert RunConfig.parse(keys | {"weights": "unbiased"}).over_selection == RunConfig.parse(keys).over_selection
    with refused("over-selection", 1.3):
        RunConfig.parse({"policy": "markov-optimal", "over-selection": 1.3, "weights": "unbiased"})


@pytest.mark.parametrize(
    ("key", "value", "wrong"),
    [
        ("clients", "client-0,client-1,client-2,ward-7", "ward-7"),
        ("clients", "tag:ward", "tag:ward"),
        ("must-include", "client-4", "client-4"),
        ("must-include", "client-3", None),
        ("clients", "client-3,client-2,client-1,client-0", None),
    ],
)
def test_a_simulation_refuses_names_of_clients_that_it_lacks(key, value, wrong, tmp_path):
    config = RunConfig.parse({"policy": "random", "num-clients": 4, "clients-per-round": 2, key: value})
    with nullcontext() if wrong is None else refused(key, wrong):
        prepare(config, tmp_path, simulated=True)
    prepare(config, tmp_path)  # a deployment waits for them
