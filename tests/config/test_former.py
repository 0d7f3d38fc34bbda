"""Former names of keys and arguments are read wherever they can still stand, with a warning that names the new one."""

import warnings

import pytest

from aoi_fl.config.fields import variable
from aoi_fl.config.former import MERGED, FormerNameWarning, present
from aoi_fl.config.keys import TaskSettings
from aoi_fl.config.run import RunConfig
from aoi_fl.docker.settings import from_environment
from aoi_fl.strategies import MarkovParticipation, SystematicParticipation
from tests.refusals import refused


def test_a_former_key_is_read_with_a_warning():
    with pytest.warns(FormerNameWarning, match="coordination"):
        config = RunConfig.parse({"policy": "markov-optimal", "wire": "broadcast"})
    assert config.coordination == "broadcast" and "wire" not in config.flat()


def test_two_names_of_one_key_are_refused():
    with refused("wire", "poll"):
        RunConfig.parse({"wire": "poll", "coordination": "reserve"})


def test_a_former_variable_of_a_cluster_is_read():
    found = from_environment({"AOI_WIRE": "poll"}, {"coordination": "reserve"})
    with pytest.warns(FormerNameWarning):
        assert RunConfig.parse(found).coordination == "poll"


@pytest.mark.parametrize("former", [{"adaptive_dropout": True}, {"absence": "learned"}])
def test_former_arguments_become_one(former):
    with pytest.warns(FormerNameWarning, match="compensate"):
        described = MarkovParticipation.optimal(6, 2, **former).policy.describe()
    assert (described["adaptive_dropout"], described["absence"] == "learned") == tuple(
        name in former for name in ("adaptive_dropout", "absence")
    )


@pytest.mark.parametrize("make", [MarkovParticipation.optimal, SystematicParticipation])
def test_a_former_argument_is_read_with_a_warning(make):
    with pytest.warns(FormerNameWarning, match="coordination"):
        strategy = make(6, 2, wire="broadcast")
    assert strategy.policy.describe()["coordination"] == "broadcast"


@pytest.mark.parametrize(
    ("former", "key", "value"),
    [
        ({"partition": "dirichlet", "alpha": "0.3"}, "partition", "dirichlet:0.3"),
        ({"dataset": "npz:a.npz", "client": "who"}, "partition", "column:who"),
        ({"model": "lr", "zeros": True}, "model", "lr:zeros"),
        (
            {"policy": "wics", "staleness": "mislabelled", "mislabel-rate": 0.2, "staleness-rates": "own"},
            "staleness",
            "mislabelled:0.2:0.9:own",
        ),
        (
            {"policy": "wics", "staleness": "mislabelled", "discount": 0.5},
            "staleness",
            "mislabelled:0.05:0.9+discount:0.5",
        ),
        ({"spare-shares": 2}, "partition", "iid+spare:2"),
        ({"partition": "dirichlet:0.3", "spare-shares": "2"}, "partition", "dirichlet:0.3+spare:2"),
        ({"packing": "none", "compression": "int8"}, "compression", "int8+unpacked"),
        ({"threads": 2, "precision": "bfloat16"}, "device", "auto+bfloat16+threads:2"),
        ({"device": "cuda", "train-together": "never"}, "device", "cuda+alone"),
        ({"learning-rate": 0.5, "learning-rate-decay": 1.0}, "learning-rate", "0.5:1.0"),
        ({"learning-rate-decay": 1.0}, "learning-rate", "0.2:1.0"),
        ({"local-epochs": 3}, "local-work", "epochs:3"),
        ({"local-epochs": 3, "local-steps": 7}, "local-work", "steps:7"),
        ({"policy": "systematic", "phases": "random", "jitter": 0.2}, "phases", "random:0.2"),
        ({"adaptive-dropout": "true"}, "compensate", "dropout"),
        ({"absence": "learned"}, "compensate", "availability"),
        ({"server-momentum": 0.5, "serve-average": 0.8}, "smoothing", "momentum:0.5+average:0.8"),
        ({"privacy": "banded", "bands": 3, "max-age": 30, "delta": 1e-3}, "privacy", "banded:3"),
        ({"policy": "wics", "strict-budget": True}, "budget-rule", "strict"),
        ({"policy": "wics", "stop-at-first": True, "strict-budget": False}, "budget-rule", "stop"),
        ({"policy": "wics", "budget": 30, "total-budget": 900.0}, "budget", "30.0:900.0"),
    ],
)
def test_former_keys_become_parts_of_one_key(former, key, value):
    with pytest.warns(FormerNameWarning, match=key):
        config = RunConfig.parse(former)
    assert config.flat()[key] == value and RunConfig.parse(config.flat()) == config
    assert RunConfig.parse(present(former, warn=False)) == config


def test_an_older_ledger_s_keys_are_all_read():
    older = {old: default for parts in MERGED.values() for old, default in parts.items()}
    ignored = {"deterministic": False, "evaluate-timeout": 5.0}
    keys = {"learning-rate": 0.1, "partition": "iid", "phases": "spread", "alpha": 0.3}  # which iid does not use
    found = present(older | ignored | keys, warn=False)
    assert found == {"learning-rate": 0.1, "partition": "iid", "phases": "spread"}


def test_both_corrections_at_once_are_refused():
    with refused("stop-at-first", True):
        RunConfig.parse({"policy": "wics", "stop-at-first": True, "budget-rule": "strict"})


def test_deleted_keys_of_an_older_ledger_are_dropped():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert present({"stream-window": 0, "drift-degrees": 1.0, "seed": 2}) == {"seed": 2}
        assert TaskSettings.model_validate({"stream-window": 0, "seed": 2}).seed == 2
    with refused("stream-window"):
        RunConfig.parse({"stream-window": 5})


@pytest.mark.parametrize(("key", "usual", "other"), [("deterministic", "true", False), ("evaluate-timeout", 600, 5.0)])
def test_a_key_without_effect_has_its_former_default(key, usual, other):
    with pytest.warns(FormerNameWarning, match=key):
        assert RunConfig.parse(from_environment({variable(key): str(usual)}, {})) == RunConfig.parse({})
    with refused(key, other) as error:
        RunConfig.parse({key: other})
    assert "Leave it out" in error.value.remedy
