"""The one table of policies: every row makes a strategy, is documented, and is known to the commands."""

import subprocess
import sys
from pathlib import Path

import pytest

from aoi_fl.config.policies import BUDGETED, KEYS, POLICIES, REGISTRY, users_of
from aoi_fl.config.run import RunConfig
from aoi_fl.science.errors import ConfigError
from aoi_fl.strategies.plan import RoundOptions

ROOT = Path(__file__).parents[2]


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


def test_the_table_is_read_without_flower():
    code = "import sys, aoi_fl.config.policies; sys.exit(any(m in sys.modules for m in ('flwr', 'numpy')))"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
