"""The one table of policies: every row makes a strategy, is documented, and is known to the commands."""

import pytest

from aoi_fl.config.policies import BUDGETED, KEYS, POLICIES, REGISTRY, users_of
from aoi_fl.config.run import RunConfig
from aoi_fl.science.errors import ConfigError
from aoi_fl.strategies.plan import RoundOptions


def refused_for_weights(make):
    """Return whether it is refused for its weights."""
    try:
        make()
    except ConfigError as error:
        assert (error.key, error.value) == ("weights", "unbiased")
        return True
    return False


@pytest.mark.parametrize("name", POLICIES)
def test_run_keys_refuse_impossible_unbiased_weights(name):
    keys = {"policy": name, "num-clients": 10, "clients-per-round": 3}
    flat, options = RunConfig.parse(keys).flat(), RoundOptions(run="r", min_clients=10)
    late = refused_for_weights(lambda: REGISTRY[name].make(flat, options=options, weights="unbiased"))
    assert refused_for_weights(lambda: RunConfig.parse(keys | {"weights": "unbiased"})) == late


def test_keys_are_run_keys_and_have_users():
    known = {name.replace("_", "-") for name in RunConfig.model_fields}
    assert known >= KEYS and all(users_of(key) for key in KEYS)
    assert set(BUDGETED) == {"wics", "abs", "maxpack", "random-budget"}
