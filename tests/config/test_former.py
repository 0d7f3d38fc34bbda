"""Former names of keys and arguments are read wherever they can still stand, with a warning that names the new one."""

import warnings

import pytest

from aoi_fl.config.former import FormerNameWarning, present
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


@pytest.mark.parametrize("make", [MarkovParticipation.optimal, SystematicParticipation])
def test_a_former_argument_is_read_with_a_warning(make):
    with pytest.warns(FormerNameWarning, match="coordination"):
        strategy = make(6, 2, wire="broadcast")
    assert strategy.policy.describe()["coordination"] == "broadcast"


def test_deleted_keys_of_an_older_ledger_are_dropped():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert present({"stream-window": 0, "drift-degrees": 1.0, "seed": 2}) == {"seed": 2}
        assert TaskSettings.model_validate({"stream-window": 0, "seed": 2}).seed == 2
    with refused("stream-window"):
        RunConfig.parse({"stream-window": 5})
